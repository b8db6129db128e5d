"""Doing once what many ask for at the same time."""

import asyncio
from collections.abc import Awaitable, Callable


class Shared:
    """Runs an action for everybody who asked before it began.

    Whoever comes while it runs may have come for something it no longer sees, so they get the
    next run, together.
    """

    def __init__(self, act: Callable[[], Awaitable[None]]) -> None:
        self._act = act
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        """Returns, or fails as it failed, once a run is over that began after this call."""
        if self._next is None:
            self._next = asyncio.create_task(self._run(self._running))
            # Everybody who asked may have given up; then nobody hears how it failed.
            self._next.add_done_callback(lambda run: run.cancelled() or run.exception())
        # A caller that gives up must not end it for the others.
        await asyncio.shield(self._next)

    async def _run(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        await self._act()
