"""Pages of lists as they change: looked up once however many watch, and asked for by nobody."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from mesh.errors import MeshError

GATHER_SECONDS = 0.25
"""A busy mesh changes all the time: so long its changes are gathered into one page."""

REREAD_SECONDS = 1.0
"""Hints may be lost while the broker restarts, so the store is asked this often."""

RESTS = 9
"""Searching many jobs takes long: so many times as long others have their turn."""

WantedT = TypeVar("WantedT", bound=Hashable)
PageT = TypeVar("PageT")


class Changing(Protocol):
    """What pages are made from: everything stored, in memory."""

    @property
    def sequence(self) -> int:
        """Of the newest change that was read."""

    async def catch_up(self) -> None:
        """Reads everything acknowledged before the call."""

    def hints(self, heard: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Says that something changes; perhaps before it is stored, perhaps not at all."""


class _Shown(Generic[PageT]):
    """One page, as all who asked for the same see it."""

    def __init__(self, look: Callable[[], PageT]) -> None:
        self._look = look
        self._sequence: int | None = None
        self.page: PageT | None = None
        self.turned = asyncio.Event()
        self.watchers = 0

    def renew(self, sequence: int) -> None:
        """Looks again if anything changed; wakes those who watch if the page did."""
        if sequence == self._sequence:
            return
        self._sequence = sequence
        page = self._look()
        if page != self.page:
            self.page = page
            turned, self.turned = self.turned, asyncio.Event()
            turned.set()


class LivePages:
    """Every page that is watched here."""

    def __init__(self, index: Changing) -> None:
        self._index = index
        self._shown: dict[Hashable, _Shown[Any]] = {}
        self._wanted = asyncio.Event()
        self._hinted = asyncio.Event()
        self._over = False

    async def keep_turning(self) -> None:
        """Follows what is stored as long as anybody watches."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            async with self._index.hints(self._hinted.set):
                while self._shown:
                    await self._turn()

    async def _turn(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(REREAD_SECONDS):
                await self._hinted.wait()
        await asyncio.sleep(GATHER_SECONDS)
        self._hinted.clear()
        with suppress(MeshError):  # the index says so itself, and the pages stay as they are
            await self._index.catch_up()
        for shown in list(self._shown.values()):
            began = monotonic()
            shown.renew(self._index.sequence)
            await asyncio.sleep(RESTS * (monotonic() - began))

    async def watch(
        self, look: Callable[[WantedT], PageT], wanted: WantedT
    ) -> AsyncGenerator[PageT, None]:
        """The page as it is now, then whenever it has changed; who is slow gets the newest."""
        await self._index.catch_up()
        with self._sharing(look, wanted) as shown:
            shown.renew(self._index.sequence)
            seen: PageT | None = None
            while not self._over:
                page, turned = shown.page, shown.turned
                if page is not None and page != seen:
                    yield page
                    seen = page
                else:
                    await turned.wait()

    @contextmanager
    def _sharing(self, look: Callable[[WantedT], PageT], wanted: WantedT) -> Iterator[_Shown[Any]]:
        key = (look, wanted)
        shown = self._shown.setdefault(key, _Shown(partial(look, wanted)))
        shown.watchers += 1
        self._wanted.set()
        try:
            yield shown
        finally:
            shown.watchers -= 1
            if not shown.watchers:
                self._shown.pop(key)

    def let_go(self) -> None:
        """Ends every watch: they have no end of their own, and would be waited for."""
        self._over = True
        for shown in self._shown.values():
            shown.turned.set()
