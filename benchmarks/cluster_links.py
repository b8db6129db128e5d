"""TCP links between brokers: each direction can be held, delayed, or made to lose packets.

A link works everywhere and without privileges. It loses no byte, since TCP would send it again: a
lost packet is the wait until then, and everything behind it waits, too.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from mesh.broker import HOST
from mesh.tasks import mark_retrieved, stop

PACKET_BYTES = 1448
RESEND_SECONDS = 0.2
"""Linux sends a lost packet again after this long; then after twice as long, and so on."""
LONGEST_RESEND_SECONDS = 10.0
CHUNK_BYTES = 65_536


@dataclass(slots=True)
class Way:
    """One direction between two brokers, and what it does to bytes."""

    rng: random.Random
    delay: float = 0.0
    loss: float = 0.0
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._open.set()

    def hold(self) -> None:
        """Passes nothing on until healed."""
        self._open.clear()

    def heal(self) -> None:
        """Passes everything on at once, in order."""
        self.delay = self.loss = 0.0
        self._open.set()

    def seconds_for(self, size: int) -> float:
        """The time that many bytes take."""
        seconds = self.delay
        for _ in range(0, size, PACKET_BYTES) if self.loss else ():
            resend = RESEND_SECONDS
            while self.rng.random() < self.loss:
                seconds += resend
                resend = min(2 * resend, LONGEST_RESEND_SECONDS)
        return seconds

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards until the sender closes."""
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def receive() -> None:
            try:
                while data := await reader.read(CHUNK_BYTES):
                    chunks.put_nowait((monotonic() + self.seconds_for(len(data)), data))
                    await self._open.wait()  # reads on only then: the sender must notice
            finally:
                chunks.put_nowait((0.0, b""))

        receiving = asyncio.create_task(receive())
        receiving.add_done_callback(mark_retrieved)
        try:
            while True:
                due, data = await chunks.get()
                if not data:
                    return
                if (wait := due - monotonic()) > 0:
                    await asyncio.sleep(wait)
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            await stop(receiving)
            writer.close()


@asynccontextmanager
async def forwarding(port: int, target: int, there: Way, back: Way) -> AsyncIterator[None]:
    """Forwards connections from one port of this machine to another inside this block."""
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with AsyncExitStack() as stack:
            stack.enter_context(suppress(OSError))
            stack.callback(writer.close)
            far_reader, far_writer = await asyncio.open_connection(HOST, target)
            stack.callback(far_writer.close)
            pumps = [
                asyncio.create_task(there.pump(reader, far_writer)),
                asyncio.create_task(back.pump(far_reader, writer)),
            ]
            for pump in pumps:
                pump.add_done_callback(mark_retrieved)  # a connection that broke
            stack.push_async_callback(stop, *pumps)
            # A connection that ended on one side is of no use on the other.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)

    def accept(*streams: Any) -> None:
        task = asyncio.create_task(serve(*streams))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(accept, HOST, port)
    try:
        yield
    finally:
        server.close()
        await stop(*serving)
