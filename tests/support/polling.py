"""Polling, for conditions without a notification."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

Condition = Callable[[], bool] | Callable[[], Awaitable[bool]]


async def until(condition: Condition, seconds: float = 60) -> None:
    """Returns as soon as the condition holds; raises TimeoutError if it never does."""
    async with asyncio.timeout(seconds):
        while not await _holds(condition):  # noqa: ASYNC110 # about other processes and threads
            await asyncio.sleep(0.01)


async def _holds(condition: Condition) -> bool:
    found = condition()
    return found if isinstance(found, bool) else await found


async def still(figure: Callable[[], int], quiet_seconds: float = 0.5) -> int:
    """The figure once it has stopped changing."""
    last, since = figure(), monotonic()
    async with asyncio.timeout(60):
        while monotonic() - since < quiet_seconds:
            await asyncio.sleep(0.02)
            if figure() != last:
                last, since = figure(), monotonic()
    return last
