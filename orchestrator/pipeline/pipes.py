"""Pipes between stages. Each carries frames in order to one reader."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from mesh.frames import MAX_FRAME_BYTES

ALIVE_SECONDS = 5.0
"""How often a reader that is held gets an empty frame."""


class Pipe:
    """A few frames in memory, so that a slow reader slows the writer down."""

    def __init__(self, frames: int = 16) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(frames)
        self._abandoned = False

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
    that fails after the download still has its bytes.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self.written = 0
        """Bytes so far."""
        self.ended = False
        """Whether nothing follows."""
        self._read = 0
        self._abandoned = False
        self._grown = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()

    async def put(self, frame: bytes) -> None:  # noqa: D102
        self._file.seek(self.written)
        self.written += self._file.write(frame)
        self._grown.set()

    async def end(self) -> None:  # noqa: D102
        self.ended = True
        self._grown.set()

    def abandon(self) -> None:
        """The reader needs no more frames; the rest is written all the same."""
        self._abandoned = True

    def close(self) -> None:
        """Releases its resources; nothing is read or written afterwards."""
        self._file.close()

    @property
    def drained(self) -> bool:
        """Whether the reader has all that is here."""
        return self._abandoned or self._read == self.written

    async def growth(self, size: int) -> None:
        """Waits for so many more bytes, or for the end."""
        enough = self.written + size
        while self.written < enough and not self.ended:
            self._grown.clear()
            await self._grown.wait()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside this block the reader gets empty frames only, which say that more will come."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            if not self._free.is_set():
                yield b""
                with suppress(TimeoutError):
                    async with asyncio.timeout(ALIVE_SECONDS):
                        await self._free.wait()
            elif self._read < self.written:
                self._file.seek(self._read)
                frame = self._file.read(MAX_FRAME_BYTES)
                self._read += len(frame)
                yield frame
            elif self.ended:
                return
            else:
                self._grown.clear()
                await self._grown.wait()


Frames: TypeAlias = Pipe | Spool
"""What a stage writes into and the next one reads from."""
