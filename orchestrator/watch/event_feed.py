"""A story as its watchers see it: held once for all of them, then live."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from nats.aio.msg import Msg
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import MeshError
from mesh.tasks import stop
from orchestrator.sharing import Shared
from orchestrator.story import PREVIOUS, SEQUENCE, EventTypeId, StoryReader
from ytcaption.v1 import event_pb2

log = get_logger(__name__)

REREAD_SECONDS = 2.0
"""Live messages may be lost while the broker restarts, so the store is asked this often."""

PROGRESS_GROUP = 20
PROGRESS_SECONDS = 0.02
"""A thousand live figures a second go out in all, evenly: more of them would delay events."""


JOIN_SECONDS = 0.02
"""Bookkeeping comes in bursts: so long it waits for the rest of its burst, or for news."""


class Entry(Protocol):
    """What is held of one stored event."""

    @property
    def sequence(self) -> int:
        """Its place in the story."""


EntryT = TypeVar("EntryT", bound=Entry)
FigureT = TypeVar("FigureT")


class _Watcher(Generic[FigureT]):
    """One who watches: what woke it, and the newest figures it has not seen."""

    def __init__(self, figures: dict[Hashable, FigureT]) -> None:
        self.awake = asyncio.Event()
        self.figures = dict(figures)


class StoryFeed(ABC, Generic[EntryT, FigureT]):
    """One story, held once however many watch: a slow one costs only its place."""

    last_word: ClassVar[EventTypeId]
    """After this event watchers are let go."""
    news: ClassVar[frozenset[EventTypeId]]
    """What people wait for, so it waits for nobody."""

    def __init__(self, bus: Bus, hero_id: str) -> None:
        self._bus = bus
        self._hero_id = hero_id
        self._reader = StoryReader(bus)
        self._told: list[EntryT] = []
        self._last = 0
        self._newest_type: EventTypeId | None = None
        self._figures: dict[Hashable, FigureT] = {}
        self._fresh: dict[Hashable, FigureT] = {}
        self._moved = asyncio.Event()
        self._watchers: dict[_Watcher[FigureT], None] = {}
        self._reread = asyncio.Event()
        self._read = Shared(self._read_newer)

    @abstractmethod
    def _hold(self, sequence: int, event: event_pb2.Event) -> None:
        """Keeps in `_told` what watchers will want to see of an event."""

    @abstractmethod
    def _figure(self, data: bytes) -> tuple[Hashable, FigureT]:
        """Live figures, and what they are about: of that only the newest count."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listens until the block ends."""
        subject = self._bus.names.live(self._hero_id, "*")
        live = await self._bus.client.subscribe(subject, cb=self._on_live)
        rereading = asyncio.create_task(self._keep_reading())
        showing = asyncio.create_task(self._keep_showing())
        try:
            yield
        finally:
            await stop(rereading, showing)
            if not self._bus.client.is_closed:
                await live.unsubscribe()

    @property
    def empty(self) -> bool:
        """Whether nothing is stored of it."""
        return not self._last

    @property
    def ended(self) -> bool:
        """Whether the last event is here. After a replay the story goes on."""
        return self._newest_type == self.last_word

    async def _on_live(self, message: Msg) -> None:
        if message.subject.endswith(".progress"):
            about, figure = self._figure(message.data)
            self._figures[about] = self._fresh[about] = figure
            self._moved.set()
            return
        headers = message.headers or {}
        if int(headers[PREVIOUS]) == self._last:
            self._tell(int(headers[SEQUENCE]), event_pb2.Event.FromString(message.data))
        else:  # something before it is missing here
            self._reread.set()

    def _tell(self, sequence: int, event: event_pb2.Event) -> None:
        if sequence <= self._last:
            return
        self._last, self._newest_type = sequence, event.type
        self._hold(sequence, event)
        if event.type in self.news:
            self._wake_all()
        else:
            asyncio.get_running_loop().call_later(JOIN_SECONDS, self._wake_all)

    def _wake_all(self) -> None:
        for watcher in self._watchers:
            watcher.awake.set()

    async def _keep_showing(self) -> None:
        """Hands out live figures, a few watchers at a time; events overtake them."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            figures, self._fresh = self._fresh, {}
            group = max(1, PROGRESS_GROUP // max(1, len(figures)))
            watchers = list(self._watchers)
            for start in range(0, len(watchers), group):
                for watcher in watchers[start : start + group]:
                    watcher.figures.update(figures)
                    watcher.awake.set()
                await asyncio.sleep(PROGRESS_SECONDS)

    async def _keep_reading(self) -> None:
        while True:
            try:
                await self.read_stored()
            except MeshError as error:
                log.warning("cannot read the story", hero_id=self._hero_id, error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reread.wait(), REREAD_SECONDS)
            self._reread.clear()

    async def read_stored(self) -> None:
        """After this, everything stored before the call is here."""
        await self._read()

    async def _read_newer(self) -> None:
        async for sequence, event in self._reader.events(self._hero_id, self._last):
            self._tell(sequence, event)

    @contextmanager
    def _watching(self) -> Iterator[_Watcher[FigureT]]:
        watcher = _Watcher(self._figures)
        self._watchers[watcher] = None
        try:
            yield watcher
        finally:
            del self._watchers[watcher]

    async def _follow(
        self, position: int, take: Callable[[int], Any], *, follow: bool
    ) -> AsyncGenerator[Any, None]:
        """What is held from a position on, figures between them; ends with the story.

        `take` gives what goes out from a position, with the `count` of entries it stands for.
        """
        with self._watching() as watcher:
            while True:
                watcher.awake.clear()
                while position < len(self._told):
                    update = take(position)
                    position += update.count
                    yield update
                if self.ended or not follow:
                    return
                if not watcher.figures:
                    await watcher.awake.wait()
                else:
                    yield watcher.figures.pop(next(iter(watcher.figures)))


FeedT = TypeVar("FeedT", bound=StoryFeed[Any, Any])


@dataclass(slots=True)
class _Shared(Generic[FeedT]):
    feed: FeedT
    watchers: int = 0
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    ready: "asyncio.Future[None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    task: "asyncio.Task[None] | None" = None


class FeedPool(Generic[FeedT]):
    """Feeds of what is being watched here."""

    def __init__(self, make: Callable[[str], FeedT]) -> None:
        self._make = make
        self._open: dict[str, _Shared[FeedT]] = {}

    @asynccontextmanager
    async def of(self, hero_id: str) -> AsyncIterator[FeedT]:
        """The feed of one story, shared with everyone else who watches it."""
        shared = self._open.get(hero_id)
        if shared is None:
            shared = self._open[hero_id] = _Shared(self._make(hero_id))
            shared.task = asyncio.create_task(self._serve(shared))
        shared.watchers += 1
        try:
            await asyncio.shield(shared.ready)
            yield shared.feed
        finally:
            shared.watchers -= 1
            if not shared.watchers:
                self._open.pop(hero_id, None)
                shared.closing.set()

    async def _serve(self, shared: _Shared[FeedT]) -> None:
        async with shared.feed.running():
            shared.ready.set_result(None)
            await shared.closing.wait()
