"""A bounded pipe between two stages, so that a slow one slows down those before it."""

import asyncio
from collections.abc import AsyncIterator


class Pipe:
    """Carries frames in order to one reader."""

    def __init__(self, frames: int = 16) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(frames)
        self._abandoned = False

    async def put(self, frame: bytes) -> None:
        """Waits while the pipe is full; frames for a reader that left are dropped."""
        if not self._abandoned:
            await self._queue.put(frame)

    async def end(self) -> None:
        """Nothing follows."""
        if not self._abandoned:
            await self._queue.put(None)

    def abandon(self) -> None:
        """The reader has all it needs: whoever waits to put goes on."""
        self._abandoned = True
        while not self._queue.empty():
            self._queue.get_nowait()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (frame := await self._queue.get()) is not None:
            yield frame
