"""Children that cost nothing to have: forked from a process that has loaded yt-dlp already."""

import asyncio
import json
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from downloader.order import PRELOAD, Order, carry_out, do_nothing

READ_AHEAD = 64 * 1024
MAX_LINE = 4 * 1024 * 1024
REAPING_SECONDS = 1

_context = multiprocessing.get_context("forkserver")


def open_nursery() -> None:
    """Starts the fork server. Early: before gRPC has threads and sockets."""
    _context.set_forkserver_preload([PRELOAD])
    forkserver.ensure_running()


async def have_one() -> None:
    """Returns once the fork server has loaded everything and children come at once."""
    await asyncio.to_thread(_have_one)


def _have_one() -> None:
    child = _context.Process(target=do_nothing, daemon=True)
    child.start()
    child.join()
    child.close()


class Child:
    """A download in another process: its media, and what it says about it."""

    def __init__(self, media: asyncio.StreamReader, control: asyncio.StreamReader) -> None:
        self.media = media
        self.total: int | None = None
        """Size of the whole, once the child knows."""
        self._control = control

    async def hear(self) -> dict[str, Any]:
        """The next word that is not about size; {} if the child is gone."""
        while line := await self._control.readline():
            word: dict[str, Any] = json.loads(line)
            if word["kind"] != "total":
                return word
            self.total = word["bytes"]
        return {}


@asynccontextmanager
async def born(order: Order) -> AsyncIterator[Child]:
    """A child that works on the order; it and all it started are dead when the block ends."""
    media_in, media_out = _context.Pipe(duplex=False)
    control_in, control_out = _context.Pipe(duplex=False)
    process = _context.Process(target=carry_out, args=(order, media_out, control_out), daemon=True)
    try:
        process.start()
    except BaseException:
        media_in.close()
        control_in.close()
        raise
    finally:
        # Ours must go, or the pipes would never end.
        media_out.close()
        control_out.close()
    transports: list[asyncio.ReadTransport] = []
    try:
        media = await _reader(media_in, READ_AHEAD, transports)
        control = await _reader(control_in, MAX_LINE, transports)
        yield Child(media, control)
    finally:
        _kill(process)
        for transport in transports:
            transport.close()
        await asyncio.shield(asyncio.to_thread(_reap, process))


async def _reader(
    pipe: Connection, limit: int, transports: list[asyncio.ReadTransport]
) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=limit)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    transports.append(transport)
    return reader


def _kill(process: ForkServerProcess) -> None:
    """The child leads a group of its own, but not yet in its very first moments."""
    assert process.pid is not None  # noqa: S101 - it was started
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(process.pid, signal.SIGKILL)


def _reap(process: ForkServerProcess) -> None:
    process.join(REAPING_SECONDS)
    with suppress(ValueError):  # still dying, in the hands of the kernel
        process.close()
