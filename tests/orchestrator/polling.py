"""Waiting for what nobody announces."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Returns when it holds; fails if that takes too long."""
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110 # about the broker
            await asyncio.sleep(0.02)
