"""Waiting for what only a question tells, as most of the orchestrator."""

from collections.abc import Awaitable, Callable

from tests import polling


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Returns when it holds; fails if that takes too long."""
    await polling.until(condition)
