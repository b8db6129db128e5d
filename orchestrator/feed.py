"""What watchers of a job see: its story from the start, then live. One feed serves them all."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from nats.aio.msg import Msg
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import MeshError
from mesh.tasks import stop
from orchestrator.sharing import Shared
from orchestrator.story import PREVIOUS, SEQUENCE, StoryReader
from orchestrator.told import Joined, Joiner, Told
from ytcaption.v1 import event_pb2, job_pb2

log = get_logger(__name__)

REREAD_SECONDS = 2.0
"""Live messages may be lost while the broker restarts, so the store is asked this often."""

PROGRESS_GROUP = 20
PROGRESS_SECONDS = 0.02
"""A thousand live figures a second go out in all, evenly: more of them would delay events."""


JOIN_SECONDS = 0.02
"""Bookkeeping comes in bursts: so long it waits for the rest of its burst, or for news."""

NEWS = frozenset(
    {
        event_pb2.EVENT_TYPE_SEGMENT_SETTLED,
        event_pb2.EVENT_TYPE_MEDIA_FOUND,
        event_pb2.EVENT_TYPE_JOB_FINISHED,
    }
)
"""What people wait for, so it waits for nobody."""


class _Watcher:
    """One who watches: what woke it, and the newest figures it has not seen."""

    def __init__(self, progress: job_pb2.JobProgress | None) -> None:
        self.awake = asyncio.Event()
        self.progress = progress


class JobFeed:
    """The story of one job, held once however many watch: a slow one costs only its place."""

    def __init__(self, bus: Bus, job_id: str) -> None:
        self._bus = bus
        self._job_id = job_id
        self._reader = StoryReader(bus)
        self._told: list[Told] = []
        self._joiner = Joiner(self._told)
        self._progress: job_pb2.JobProgress | None = None
        self._moved = asyncio.Event()
        self._watchers: dict[_Watcher, None] = {}
        self._reread = asyncio.Event()
        self._read = Shared(self._read_newer)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listens until the block ends."""
        subject = self._bus.names.live(self._job_id, "*")
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
    def _last(self) -> int:
        return self._told[-1].sequence if self._told else 0

    @property
    def empty(self) -> bool:
        """Whether nothing is stored of the job."""
        return not self._told

    @property
    def ended(self) -> bool:
        """Whether the job's last event is here. A replayed job goes on after it."""
        return bool(self._told) and self._told[-1].event.type == event_pb2.EVENT_TYPE_JOB_FINISHED

    async def _on_live(self, message: Msg) -> None:
        if message.subject.endswith(".progress"):
            self._progress = job_pb2.JobProgress.FromString(message.data)
            self._moved.set()
            return
        headers = message.headers or {}
        if int(headers[PREVIOUS]) == self._last:
            event = event_pb2.Event.FromString(message.data)
            self._tell(Told(int(headers[SEQUENCE]), event))
        else:  # something before it is missing here
            self._reread.set()

    def _tell(self, told: Told) -> None:
        if told.sequence <= self._last:
            return
        self._told.append(told)
        if told.event.type in NEWS:
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
            watchers = list(self._watchers)
            for start in range(0, len(watchers), PROGRESS_GROUP):
                for watcher in watchers[start : start + PROGRESS_GROUP]:
                    watcher.progress = self._progress
                    watcher.awake.set()
                await asyncio.sleep(PROGRESS_SECONDS)

    async def _keep_reading(self) -> None:
        while True:
            try:
                await self.read_stored()
            except MeshError as error:
                log.warning("cannot read the story", job_id=self._job_id, error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reread.wait(), REREAD_SECONDS)
            self._reread.clear()

    async def read_stored(self) -> None:
        """After this, everything stored before the call is here."""
        await self._read()

    async def _read_newer(self) -> None:
        async for sequence, event in self._reader.events(self._job_id, self._last):
            self._tell(Told(sequence, event))

    async def watch(
        self, after: int, *, follow: bool = True, join: bool = False
    ) -> AsyncGenerator[Told | Joined | job_pb2.JobProgress, None]:
        """Stored events after a sequence, the newest progress between them; ends with the job."""
        watcher = _Watcher(self._progress)
        self._watchers[watcher] = None
        try:
            position = bisect_right(self._told, after, key=lambda told: told.sequence)
            while True:
                watcher.awake.clear()
                while position < len(self._told):
                    update = self._joiner.join(position) if join else self._told[position]
                    position += update.count
                    yield update
                if self.ended or not follow:
                    return
                if watcher.progress is None:
                    await watcher.awake.wait()
                else:
                    newest, watcher.progress = watcher.progress, None
                    yield newest
        finally:
            del self._watchers[watcher]


@dataclass(slots=True)
class _Shared:
    feed: JobFeed
    watchers: int = 0
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    ready: "asyncio.Future[None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    task: "asyncio.Task[None] | None" = None


class Feeds:
    """Feeds of the jobs that are being watched here."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._open: dict[str, _Shared] = {}

    @asynccontextmanager
    async def of(self, job_id: str) -> AsyncIterator[JobFeed]:
        """The feed of a job, shared with everyone else who watches it."""
        shared = self._open.get(job_id)
        if shared is None:
            shared = self._open[job_id] = _Shared(JobFeed(self._bus, job_id))
            shared.task = asyncio.create_task(self._serve(shared))
        shared.watchers += 1
        try:
            await asyncio.shield(shared.ready)
            yield shared.feed
        finally:
            shared.watchers -= 1
            if not shared.watchers:
                self._open.pop(job_id, None)
                shared.closing.set()

    async def _serve(self, shared: _Shared) -> None:
        async with shared.feed.running():
            shared.ready.set_result(None)
            await shared.closing.wait()
