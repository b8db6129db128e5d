"""Event feeds: one event log in memory for all its watchers, stored events first, then live."""

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from nats.aio.msg import Msg
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import MeshError
from mesh.tasks import SingleFlight, stop
from orchestrator.jobs.event_log import PREVIOUS, SEQUENCE, EventLogReader, EventTypeId
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

log = get_logger(__name__)

MAX_JOINED_BYTES = 16 * 1024
"""More would cost too much memory when many watchers stall."""


REREAD_SECONDS = 2.0
"""Live messages may be lost while the broker restarts, so the stored log is read this often."""

PROGRESS_GROUP = 20
PROGRESS_SECONDS = 0.02
"""At most a thousand progress updates a second go out in all: more would delay events."""

JOIN_SECONDS = 0.02
"""Less urgent events come in bursts: they wait this long for the rest of the burst."""

EntryT = TypeVar("EntryT")
"""What a feed keeps of one stored event."""
ProgressT = TypeVar("ProgressT")


@dataclass(frozen=True)
class LoggedEvent:
    """One stored event."""

    sequence: int
    event: event_pb2.Event

    count = 1

    @cached_property
    def size(self) -> int:
        """Bytes on the wire."""
        return self.event.ByteSize()

    @cached_property
    def response(self) -> pb.WatchJobResponse:
        """The message, built once for all watchers."""
        return pb.WatchJobResponse(sequence=self.sequence, event=self.event)


@dataclass(frozen=True)
class EventBatch:
    """Several stored events."""

    events: tuple[LoggedEvent, ...]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.events)

    @cached_property
    def response(self) -> pb.WatchJobResponse:
        """The message, built once for all watchers at the same position."""
        stored = [pb.StoredEvent(sequence=one.sequence, event=one.event) for one in self.events]
        return pb.WatchJobResponse(
            sequence=self.events[-1].sequence, events=pb.StoredEvents(events=stored)
        )


class Batcher:
    """Joins events behind a position; watchers at one position share the batch."""

    def __init__(self, entries: Sequence[LoggedEvent]) -> None:
        self._entries = entries
        self._newest: tuple[tuple[int, int], LoggedEvent | EventBatch] | None = None

    def join(self, begin: int) -> LoggedEvent | EventBatch:
        """The event at that position with as many that follow as fit into one batch."""
        end, size = begin + 1, self._entries[begin].size
        while end < len(self._entries) and size + self._entries[end].size <= MAX_JOINED_BYTES:
            size += self._entries[end].size
            end += 1
        if end == begin + 1:
            return self._entries[begin]
        if self._newest is None or self._newest[0] != (begin, end):
            self._newest = (begin, end), EventBatch(tuple(self._entries[begin:end]))
        return self._newest[1]


class _Watcher(Generic[ProgressT]):
    """One watcher: its wake-up signal, and the newest progress it has not seen."""

    def __init__(self, progress: dict[Hashable, ProgressT]) -> None:
        self.awake = asyncio.Event()
        self.progress = dict(progress)


class EventFeed(ABC, Generic[EntryT, ProgressT]):
    """One event log, in memory once for all watchers; a slow watcher costs only its position."""

    final: ClassVar[EventTypeId]
    """Watches end after this event."""
    urgent: ClassVar[frozenset[EventTypeId]]
    """Events people wait for: they wake watchers at once."""

    def __init__(self, bus: Bus, event_logs: EventLogReader, entity_id: str) -> None:
        self._bus = bus
        self._entity_id = entity_id
        self._reader = event_logs
        self._entries: list[EntryT] = []
        self._last = 0
        self._newest_type: EventTypeId | None = None
        self._progress: dict[Hashable, ProgressT] = {}
        self._unsent: dict[Hashable, ProgressT] = {}
        self._moved = asyncio.Event()
        self._watchers: dict[_Watcher[ProgressT], None] = {}
        self._reread = asyncio.Event()
        self.read_stored = SingleFlight(self._read_newer)
        """Reads everything stored before the call."""

    @abstractmethod
    def _keep(self, sequence: int, event: event_pb2.Event) -> None:
        """Adds to `_entries` what watchers are to see of an event."""

    @abstractmethod
    def _decode_progress(self, data: bytes) -> tuple[Hashable, ProgressT]:
        """Decodes a progress message, with a key: only the newest of each key counts."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follows the event log inside this block."""
        subject = self._bus.names.live(self._entity_id, "*")
        async with self._bus.subscribed(subject, self._on_live):
            rereading = asyncio.create_task(self._reread_periodically())
            publishing = asyncio.create_task(self._publish_progress())
            try:
                yield
            finally:
                await stop(rereading, publishing)

    @property
    def empty(self) -> bool:
        """Whether the event log has no event."""
        return not self._last

    @property
    def ended(self) -> bool:
        """Whether the newest event is the final one. After a replay the event log goes on."""
        return self._newest_type == self.final

    async def _on_live(self, message: Msg) -> None:
        if message.subject.endswith(".progress"):
            key, update = self._decode_progress(message.data)
            self._progress[key] = self._unsent[key] = update
            self._moved.set()
            return
        headers = message.headers or {}
        if int(headers[PREVIOUS]) == self._last:
            self._add(int(headers[SEQUENCE]), event_pb2.Event.FromString(message.data))
        else:  # an event before it was missed
            self._reread.set()

    def _add(self, sequence: int, event: event_pb2.Event) -> None:
        if sequence <= self._last:
            return
        self._last, self._newest_type = sequence, event.type
        self._keep(sequence, event)
        if event.type in self.urgent:
            self._wake_all()
        else:
            asyncio.get_running_loop().call_later(JOIN_SECONDS, self._wake_all)

    def _wake_all(self) -> None:
        for watcher in self._watchers:
            watcher.awake.set()

    async def _publish_progress(self) -> None:
        """Hands out progress, a few watchers at a time; events overtake it."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            progress, self._unsent = self._unsent, {}
            group = max(1, PROGRESS_GROUP // max(1, len(progress)))
            watchers = list(self._watchers)
            for start in range(0, len(watchers), group):
                for watcher in watchers[start : start + group]:
                    watcher.progress.update(progress)
                    watcher.awake.set()
                await asyncio.sleep(PROGRESS_SECONDS)

    async def _reread_periodically(self) -> None:
        while True:
            try:
                await self.read_stored()
            except MeshError as error:
                log.warning(
                    "cannot read the event log", entity_id=self._entity_id, error=str(error)
                )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reread.wait(), REREAD_SECONDS)
            self._reread.clear()

    async def _read_newer(self) -> None:
        async for sequence, event in self._reader.events(self._entity_id, self._last):
            self._add(sequence, event)

    @contextmanager
    def _watching(self) -> Iterator[_Watcher[ProgressT]]:
        watcher = _Watcher(self._progress)
        self._watchers[watcher] = None
        try:
            yield watcher
        finally:
            del self._watchers[watcher]

    async def until_ended(self) -> None:
        """Waits until the event log has its final event."""
        await self.read_stored()
        with self._watching() as watcher:
            while not self.ended:
                await watcher.awake.wait()
                watcher.awake.clear()

    async def _follow(
        self, position: int, take: Callable[[int], tuple[Any, int]], *, follow: bool
    ) -> AsyncGenerator[Any, None]:
        """Yields entries from a position on, with progress in between; ends with the event log.

        `take` returns what goes out from a position, and how many entries that covers.
        """
        with self._watching() as watcher:
            while True:
                watcher.awake.clear()
                while position < len(self._entries):
                    update, count = take(position)
                    position += count
                    yield update
                if self.ended or not follow:
                    return
                if not watcher.progress:
                    await watcher.awake.wait()
                else:
                    yield watcher.progress.pop(next(iter(watcher.progress)))


FeedT = TypeVar("FeedT", bound=EventFeed[Any, Any])


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
    """The feeds that are being watched here, by job or collection."""

    def __init__(self, make: Callable[[str], FeedT]) -> None:
        self._make = make
        self._open: dict[str, _Shared[FeedT]] = {}

    @asynccontextmanager
    async def of(self, entity_id: str) -> AsyncIterator[FeedT]:
        """The feed of one event log, shared by all its watchers."""
        shared = self._open.get(entity_id)
        if shared is None:
            shared = self._open[entity_id] = _Shared(self._make(entity_id))
            shared.task = asyncio.create_task(self._serve(shared))
        shared.watchers += 1
        try:
            await asyncio.shield(shared.ready)
            yield shared.feed
        finally:
            shared.watchers -= 1
            if not shared.watchers:
                self._open.pop(entity_id, None)
                shared.closing.set()

    async def until_ended(self, entity_id: str) -> None:
        """Waits until the event log has its final event."""
        async with self.of(entity_id) as feed:
            await feed.until_ended()

    async def _serve(self, shared: _Shared[FeedT]) -> None:
        async with shared.feed.running():
            shared.ready.set_result(None)
            await shared.closing.wait()


class JobFeed(EventFeed[LoggedEvent, job_pb2.JobProgress]):
    """The feed of one job."""

    final = event_pb2.EVENT_TYPE_JOB_FINISHED
    urgent = frozenset(
        {
            event_pb2.EVENT_TYPE_SEGMENT_SETTLED,
            event_pb2.EVENT_TYPE_MEDIA_FOUND,
            event_pb2.EVENT_TYPE_JOB_FINISHED,
        }
    )

    def __init__(self, bus: Bus, event_logs: EventLogReader, job_id: str) -> None:
        super().__init__(bus, event_logs, job_id)
        self._batcher = Batcher(self._entries)

    def _keep(self, sequence: int, event: event_pb2.Event) -> None:
        self._entries.append(LoggedEvent(sequence, event))

    def _decode_progress(self, data: bytes) -> tuple[None, job_pb2.JobProgress]:
        return None, job_pb2.JobProgress.FromString(data)

    def watch(
        self, after: int, *, follow: bool = True, join: bool = False
    ) -> AsyncGenerator[LoggedEvent | EventBatch | job_pb2.JobProgress, None]:
        """Yields events after a sequence, the newest progress in between; ends with the job."""
        position = bisect_right(self._entries, after, key=lambda entry: entry.sequence)
        entry = self._batcher.join if join else self._entries.__getitem__

        def take(position: int) -> tuple[LoggedEvent | EventBatch, int]:
            update = entry(position)
            return update, update.count

        return self._follow(position, take, follow=follow)
