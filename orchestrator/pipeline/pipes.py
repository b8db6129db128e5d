"""Pipes between stages. Each carries frames in order to one reader."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

from mesh.frames import MAX_FRAME_BYTES


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
        self._written = 0
        self._ended = False
        self._grown = asyncio.Event()

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

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        while True:
            self._grown.clear()
            while read < self._written:
                self._file.seek(read)
                frame = self._file.read(MAX_FRAME_BYTES)
                read += len(frame)
                yield frame
            if self._ended:
                return
            await self._grown.wait()


Frames: TypeAlias = Pipe | Spool
"""What a stage writes into and the next one reads from."""
