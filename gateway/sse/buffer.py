"""What a watch says, between the task that listens and the client that reads."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Generic, TypeVar

import grpc

from gateway.backend import understood
from mesh.errors import MeshError

ROOM = 16
"""Updates that may wait; then we stop listening, and the orchestrator stops sending."""

UpdateT = TypeVar("UpdateT")


class Mailbox(Generic[UpdateT]):
    """Keeps every event in order, but of live figures only the newest."""

    def __init__(
        self,
        updates: AsyncGenerator[UpdateT, None],
        live: Callable[[UpdateT], int | None],
    ) -> None:
        """`live` says whose figures an update brings; None: it is an event."""
        self._updates = updates
        self._live = live
        self._events: list[UpdateT] = []
        self._figures: dict[int, UpdateT] = {}
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._closed = False
        self._failure: MeshError | None = None
        self._listening: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begins to listen, in a task of its own: whoever reads may be cancelled at any moment."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    def close(self) -> None:
        """Stops listening; who waits for news hears that there are none."""
        self._closed = True
        self._news.set()
        if self._listening is not None:
            self._listening.cancel()

    async def _listen(self) -> None:
        try:
            async with aclosing(self._updates):
                async for update in self._updates:
                    await self._take(update)
        except grpc.aio.AioRpcError as error:
            self._failure = understood(error)
        finally:
            self._closed = True
            self._news.set()

    async def _take(self, update: UpdateT) -> None:
        whose = self._live(update)
        if whose is not None:
            self._figures[whose] = update
        else:
            self._events.append(update)
        self._news.set()
        if len(self._events) >= ROOM:
            self._room.clear()
            await self._room.wait()

    async def next(self, seconds: float) -> list[UpdateT]:
        """All that waits; nothing if nothing came for so long. Raises ClosedError at the end."""
        if not self._has_news():
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        waiting, self._events = self._events, []
        self._room.set()
        waiting += self._figures.values()
        self._figures = {}
        if waiting or not self._closed:
            return waiting
        raise self._failure or ClosedError

    def _has_news(self) -> bool:
        return bool(self._events) or bool(self._figures) or self._closed


class ClosedError(Exception):
    """There is nothing more."""
