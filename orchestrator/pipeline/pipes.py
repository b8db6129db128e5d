"""Pipes between stages. Each carries frames in order to one reader."""

import asyncio
from asyncio import Semaphore
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from mesh.frames import MAX_FRAME_BYTES
from mesh.slots import Slot

SLOW_BYTES = 64 * 1024
SLOW_SECONDS = 10.0
MAX_SLOW_JOBS = 8
"""Most jobs of one orchestrator that wait for bytes without a slot; more keep theirs."""


class Pipe:
    """A few frames in memory, so that a slow reader slows the writer down."""

    def __init__(self, frames: int = 16) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(frames)
        self._abandoned = False

    async def begun(self) -> None:
        """Waits for nothing: its reader may open at once."""

    async def put(self, frame: bytes) -> None:
        """Waits for the reader; drops frames for a reader that left."""
        if not self._abandoned:
            await self._queue.put(frame)

    async def end(self) -> None:
        """Nothing follows."""
        if not self._abandoned:
            await self._queue.put(None)

    def abandon(self) -> None:
        """The reader needs no more frames: a waiting writer goes on."""
        self._abandoned = True
        while not self._queue.empty():
            self._queue.get_nowait()

    def close(self) -> None:
        """Holds no resource."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (frame := await self._queue.get()) is not None:
            yield frame


class Spool:
    """A file that is read while it grows: the writer never waits, and the file stays complete.

    The connection to the site is not held open for as long as transcription takes, and an attempt
    that fails after the download still has its bytes. A job that only waits for bytes gives its
    slot back: if the next SLOW_BYTES take longer than SLOW_SECONDS of waiting, others compute until
    so many are here.
    """

    def __init__(self, path: Path, slot: Slot | None = None, slow: Semaphore | None = None) -> None:
        self._slot = slot or Slot(Semaphore(1))
        self._slow = slow or Semaphore(1)
        self._due, self._patience = SLOW_BYTES, SLOW_SECONDS
        self._file = path.open("w+b", buffering=0)
        self._written = 0
        self._ended = False
        self._grown = asyncio.Event()

    async def begun(self) -> None:
        """Waits for the first bytes."""
        await self._until_more_than(0)

    async def put(self, frame: bytes) -> None:  # noqa: D102
        self._file.seek(self._written)
        self._written += self._file.write(frame)
        self._grown.set()

    async def end(self) -> None:  # noqa: D102
        self._ended = True
        self._grown.set()

    def abandon(self) -> None:
        """Changes nothing: the rest is written all the same."""

    def close(self) -> None:
        """Releases its resources; nothing is read or written afterwards."""
        self._file.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        # Empty frames, while the slot is waited for, tell the reader that more will come.
        return self._slot.reporting(self._frames(), b"")

    async def _frames(self) -> AsyncGenerator[bytes, None]:
        read = 0
        while await self._until_more_than(read):
            self._file.seek(read)
            frame = self._file.read(MAX_FRAME_BYTES)
            read += len(frame)
            yield frame

    async def _until_more_than(self, read: int) -> bool:
        """Waits for further bytes; False if none will come."""
        clock = asyncio.get_running_loop().time
        while self._written == read and not self._ended:
            began = clock()
            await self._growing(self._patience)
            self._patience -= clock() - began
            in_time = self._written >= self._due
            if in_time or self._patience <= 0:
                if not in_time and not self._slow.locked():
                    await self._wait_without_slot(read)
                self._due, self._patience = self._written + SLOW_BYTES, SLOW_SECONDS
        return read < self._written

    async def _wait_without_slot(self, read: int) -> None:
        async with self._slow:
            self._slot.release()
            while self._written < read + SLOW_BYTES and not self._ended:
                await self._growing(None)
            await self._slot.take()

    async def _growing(self, seconds: float | None) -> None:
        """Waits for a write or the end, at most this long."""
        self._grown.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._grown.wait()


Frames: TypeAlias = Pipe | Spool
"""What a stage writes into and the next one reads from."""
