"""Bounded buffer between a watch call of the orchestrator and the client that reads the stream."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

import grpc

from gateway.client import mesh_error
from mesh.errors import MeshError

MAX_EVENTS = 16
"""Events that may wait; beyond that the watch is not read, and flow control stops the sender."""

UpdateT = TypeVar("UpdateT")
UpdateT_co = TypeVar("UpdateT_co", covariant=True)


class Updates(Protocol[UpdateT_co]):
    """What an event stream reads its updates from."""

    def open(self) -> object:
        """Starts reading, if it has not."""

    def close(self) -> None:
        """Stops reading; a pending `next` returns what is left, or raises ClosedError."""

    async def next(self, seconds: float) -> Sequence[UpdateT_co]:
        """Returns all buffered updates, or none after a timeout; raises ClosedError at the end."""


class Wakeup:
    """Wakes the one task that waits; its timer stays armed from wait to wait.

    A stream waits for every event, and times out once in many of them: `asyncio.timeout` would make
    and cancel a timer each time.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[bool] | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, seconds: float) -> bool:
        """Whether `wake` was called within that time."""
        self._deadline = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._on_time)
        self._waiter = self._loop.create_future()
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Ends the wait, if there is one."""
        self._end(woken=True)

    def close(self) -> None:
        """Ends the wait; there will be no other."""
        self.wake()
        if self._timer is not None:
            self._timer.cancel()

    def _on_time(self) -> None:
        self._timer = None
        if self._loop.time() >= self._deadline:
            self._end(woken=False)
        else:  # it was woken meanwhile
            self._timer = self._loop.call_at(self._deadline, self._on_time)

    def _end(self, *, woken: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(woken)


class UpdateBuffer(Generic[UpdateT]):
    """Buffers every event in order, but only the newest of each progress update."""

    def __init__(
        self,
        updates: AsyncGenerator[UpdateT, None],
        progress_key: Callable[[UpdateT], int | None],
    ) -> None:
        """`progress_key` returns what a progress update is about, or None for an event."""
        self._updates = updates
        self._progress_key = progress_key
        self._events: list[UpdateT] = []
        self._progress: dict[int, UpdateT] = {}
        self._changed = Wakeup()
        self._drained = asyncio.Event()
        self._closed = False
        self._failure: MeshError | None = None
        self._reader: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Starts reading, in its own task: the client's task may be cancelled at any moment."""
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())

    def close(self) -> None:
        """Stops reading; a pending `next` returns what is left, or raises ClosedError."""
        self._closed = True
        self._changed.close()
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self) -> None:
        try:
            async with aclosing(self._updates):
                async for update in self._updates:
                    await self._put(update)
        except grpc.aio.AioRpcError as error:
            self._failure = mesh_error(error)
        finally:
            self._closed = True
            self._changed.wake()

    async def _put(self, update: UpdateT) -> None:
        key = self._progress_key(update)
        if key is not None:
            self._progress[key] = update
        else:
            self._events.append(update)
        self._changed.wake()
        if len(self._events) >= MAX_EVENTS:
            self._drained.clear()
            await self._drained.wait()

    async def next(self, seconds: float) -> list[UpdateT]:
        """Returns all buffered updates, or none after a timeout; raises ClosedError at the end."""
        if not (self._events or self._progress or self._closed):
            await self._changed.wait(seconds)
        updates, self._events = self._events, []
        self._drained.set()
        updates += self._progress.values()
        self._progress = {}
        if updates or not self._closed:
            return updates
        raise self._failure or ClosedError


class ClosedError(Exception):
    """The watch ended, and every update was read."""
