"""Background tasks: runs them concurrently, once for many callers, and stops them reliably."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from structlog import get_logger

log = get_logger(__name__)

AGAIN_SECONDS = 0.5

WorkT = TypeVar("WorkT")
ResultT = TypeVar("ResultT")


async def side_by_side(
    take: Callable[[], Awaitable[WorkT]], deal_with: Callable[[WorkT], Coroutine[Any, Any, None]]
) -> None:
    """Handles each item in a task of its own until cancelled; then stops the running tasks."""
    running: set[asyncio.Task[None]] = set()
    try:
        while True:
            task = asyncio.create_task(deal_with(await take()))
            running.add(task)
            task.add_done_callback(running.discard)
    finally:
        await stop(*running)


async def map_concurrently(
    deal_with: Callable[[WorkT], Awaitable[ResultT]], items: Iterable[WorkT], *, at_once: int
) -> list[ResultT]:
    """Handles every item, at most `at_once` at a time; returns the results in the items' order."""
    slots = asyncio.Semaphore(at_once)

    async def handle(item: WorkT) -> ResultT:
        async with slots:
            return await deal_with(item)

    return await asyncio.gather(*map(handle, items))


async def stop(*tasks: "asyncio.Task[Any]") -> None:
    """Cancels the tasks repeatedly until they have ended.

    One cancel is not enough: asyncio.wait_for of Python 3.11, which nats-py uses, swallows a
    cancellation that arrives together with its result.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=AGAIN_SECONDS)


async def uninterrupted(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Waits for the work; a cancelled caller leaves it running, and its failure is then logged."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_log_failure)
        raise


def _log_failure(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        name = getattr(task.get_coro(), "__qualname__", task.get_name())
        log.warning("failed after its caller was cancelled", work=name, error=repr(error))


def mark_retrieved(task: "asyncio.Task[Any]") -> None:
    """A done callback for shared tasks: if all callers were cancelled, its error is dropped.

    Without it asyncio would report an exception that was never retrieved.
    """
    if not task.cancelled():
        task.exception()


class SingleFlight:
    """Single flight: runs an action once for all callers that asked before it began.

    Callers that arrive during a run share the next one: the current run may have missed what they
    asked for.
    """

    def __init__(self, act: Callable[[], Awaitable[None]]) -> None:
        self._act = act
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        """Waits for a run that begins after this call; returns or raises as that run does."""
        if self._next is None:
            self._next = asyncio.create_task(self._run(self._running))
            self._next.add_done_callback(mark_retrieved)
        # A cancelled caller must not cancel the run for the others.
        await asyncio.shield(self._next)

    async def _run(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        await self._act()
