"""Pipes between stages. Each carries frames in order to one reader."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from mesh.frames import MAX_FRAME_BYTES


class Frames(Protocol):
    """What a stage writes into and the next one reads from."""

    async def put(self, frame: bytes) -> None:
        """Takes a frame; may wait for the reader. Frames for a reader that left are dropped."""

    async def end(self) -> None:
        """Nothing follows."""

    def abandon(self) -> None:
        """The reader has all it needs: whoever waits to put goes on."""

    def close(self) -> None:
        """Nothing is read or written any more."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class Pipe:
    """A few frames in memory, so that a slow reader slows the writer down."""

    def __init__(self, frames: int = 16) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(frames)
        self._abandoned = False

    async def put(self, frame: bytes) -> None:  # noqa: D102
        if not self._abandoned:
            await self._queue.put(frame)

    async def end(self) -> None:  # noqa: D102
        if not self._abandoned:
            await self._queue.put(None)

    def abandon(self) -> None:  # noqa: D102
        self._abandoned = True
        while not self._queue.empty():
            self._queue.get_nowait()

    def close(self) -> None:
        """Nothing to let go of."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (frame := await self._queue.get()) is not None:
            yield frame


class Spool:
    """A file that is read while it grows: the writer never waits, and the whole is kept.

    A site need not hold its connection open for as long as the model listens, and an attempt
    that fails after the download has its bytes still.
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
        """The rest is kept all the same."""

    def close(self) -> None:
        """Nothing is read or written any more."""
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
