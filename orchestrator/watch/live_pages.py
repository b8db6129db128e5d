"""Live pages of lists: looked up once for all watchers and pushed; clients do not poll."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import thread_time
from typing import Any, Generic, TypeVar

from mesh.errors import MeshError
from orchestrator.jobs.index import JobIndex

GATHER_SECONDS = 0.25
"""Changes within this time are gathered into one page."""

REREAD_SECONDS = 1.0
"""Hints may be lost while the broker restarts, so the store is read this often."""

REST_FACTOR = 9
"""After each lookup this many times its processor time is left to other work."""

WantedT = TypeVar("WantedT", bound=Hashable)
PageT = TypeVar("PageT")


class _SharedPage(Generic[PageT]):
    """One page, shared by all watchers of the same query."""

    def __init__(self, look: Callable[[], PageT]) -> None:
        self._look = look
        self._sequence: int | None = None
        self.page: PageT | None = None
        self.changed = asyncio.Event()
        self.watchers = 0

    def renew(self, sequence: int) -> None:
        """Looks the page up if the index changed; wakes watchers if the page did."""
        if sequence == self._sequence:
            return
        self._sequence = sequence
        page = self._look()
        if page != self.page:
            self.page = page
            changed, self.changed = self.changed, asyncio.Event()
            changed.set()


class LivePages:
    """The pages that are being watched here."""

    def __init__(self, index: JobIndex) -> None:
        self._index = index
        self._pages: dict[Hashable, _SharedPage[Any]] = {}
        self._wanted = asyncio.Event()
        self._hinted = asyncio.Event()
        self._closed = False

    async def run(self) -> None:
        """Refreshes pages as long as any is watched."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            async with self._index.hints(self._hinted.set):
                while self._pages:
                    await self._refresh()

    async def _refresh(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(REREAD_SECONDS):
                await self._hinted.wait()
        await asyncio.sleep(GATHER_SECONDS)
        self._hinted.clear()
        with suppress(MeshError):  # the index says so itself, and the pages stay as they are
            await self._index.catch_up()
        for shared in list(self._pages.values()):
            began = thread_time()
            shared.renew(self._index.sequence)
            await asyncio.sleep(REST_FACTOR * (thread_time() - began))

    async def watch(
        self, look: Callable[[WantedT], PageT], wanted: WantedT
    ) -> AsyncGenerator[PageT, None]:
        """Yields the page as it is now, then whenever it changes; slow watchers get the newest."""
        await self._index.catch_up()
        with self._sharing(look, wanted) as shared:
            shared.renew(self._index.sequence)
            seen: PageT | None = None
            while not self._closed:
                page, changed = shared.page, shared.changed
                if page is not None and page != seen:
                    yield page
                    seen = page
                else:
                    await changed.wait()

    @contextmanager
    def _sharing(
        self, look: Callable[[WantedT], PageT], wanted: WantedT
    ) -> Iterator[_SharedPage[Any]]:
        key = (look, wanted)
        shared = self._pages.setdefault(key, _SharedPage(partial(look, wanted)))
        shared.watchers += 1
        self._wanted.set()
        try:
            yield shared
        finally:
            shared.watchers -= 1
            if not shared.watchers:
                self._pages.pop(key)

    def close(self) -> None:
        """Ends every watch: they never end by themselves, and the server waits for open calls."""
        self._closed = True
        for shared in self._pages.values():
            shared.changed.set()
