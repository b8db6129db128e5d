"""Background tasks: beginning them, and ending them for certain."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

AGAIN_SECONDS = 0.5

WorkT = TypeVar("WorkT")


async def side_by_side(
    take: Callable[[], Awaitable[WorkT]], deal_with: Callable[[WorkT], Coroutine[Any, Any, None]]
) -> None:
    """Gives all that comes a task of its own until cancelled; those under way are then stopped."""
    under_way: set[asyncio.Task[None]] = set()
    try:
        while True:
            task = asyncio.create_task(deal_with(await take()))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
    finally:
        await stop(*under_way)


async def stop(*tasks: "asyncio.Task[Any]") -> None:
    """Cancels until they have ended.

    Once is not enough: asyncio.wait_for of Python 3.11, which nats-py leans on, swallows a
    cancellation that arrives together with its result.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=AGAIN_SECONDS)
