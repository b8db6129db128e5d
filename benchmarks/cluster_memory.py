"""Brokers that run out of memory: a limit just above what they use, and clients that do not read.

The limit is RLIMIT_DATA, which needs no privilege and no cgroup. A Go program that gets no more
memory ends at once, in the middle of what it does.
"""

import asyncio
import re
import resource
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from benchmarks.cluster_brokers import Broker
from tests.support.cluster import LOGIN

MIB = 1024**2
MARGIN_BYTES = 16 * MIB
READERS = 4
"""Each may leave 64 MiB unread before the broker cuts it off."""
DEATH_SECONDS = 60
SUBJECT = b"chaos.unread"
HELLO = b'CONNECT {"verbose": false, "user": "%b", "pass": "%b"}\r\n' % tuple(
    LOGIN.encode().split(b":")
)
LAST_WORDS = re.compile(rb"^fatal error: .*(out of memory|cannot allocate|newosproc)", re.MULTILINE)
"""What Go prints if it gets no memory: for the heap, for its own records, for a thread."""


async def run_out_of_memory(broker: Broker) -> None:
    """Returns when the broker has ended for want of memory; TimeoutError if it does not."""
    process, log = broker.process, broker.configuration.with_suffix(".log")
    if process is None:
        raise ProcessLookupError(broker.name)
    known = log.stat().st_size
    limit = _used(process.pid) + MARGIN_BYTES
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit, limit))
    gorging = asyncio.create_task(_gorge(broker))
    try:
        async with asyncio.timeout(DEATH_SECONDS):
            await process.wait()
    finally:
        gorging.cancel()
        await asyncio.wait([gorging])
    if not LAST_WORDS.search(log.read_bytes()[known:]):
        raise RuntimeError(f"{broker.name} ended, but not for want of memory")
    await broker.kill()  # nothing is left of it but its exit code


def _used(pid: int) -> int:
    """The bytes that count against the limit."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmData:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


async def _gorge(broker: Broker) -> None:
    """Sends messages for clients that read nothing, so that the broker keeps them in memory."""
    message = bytes(MIB)
    async with AsyncExitStack() as stack:
        stack.enter_context(suppress(OSError))
        for _ in range(READERS):
            _, reader = await asyncio.open_connection(broker.host, broker.port)
            stack.callback(reader.close)
            reader.write(HELLO + b"SUB " + SUBJECT + b" 1\r\n")
            await reader.drain()
            reader.transport.pause_reading()  # type: ignore[attr-defined] # of a socket
        _, writer = await asyncio.open_connection(broker.host, broker.port)
        stack.callback(writer.close)
        writer.write(HELLO)
        while True:
            writer.write(b"PUB %b %d\r\n%b\r\n" % (SUBJECT, len(message), message))
            await writer.drain()
