"""Removes what nobody needs any more: old jobs, files when room runs out, orphans."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic

from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, MeshError, NotFoundError
from mesh.reasons import Reason
from orchestrator.artifacts import SOURCE, TRANSCRIPT, UPLOAD
from orchestrator.collections.control import CollectionControl
from orchestrator.control import Control
from orchestrator.index import JobIndex
from orchestrator.jobs import TERMINAL, Jobs
from orchestrator.orphans import Orphans
from orchestrator.paging import MAX_PAGE
from orchestrator.room import Room
from orchestrator.settings import Settings
from orchestrator.shelves import File, Shelves
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

SWEEP_SECONDS = 60.0
FIRST_SWEEP_SECONDS = 30.0
"""Who has just started has callers to answer."""

SEARCH_SECONDS = 3600.0
"""Looking for orphans reads the name of every file."""

ORPHAN_AGE = timedelta(hours=1)
DEFAULT_AGE = timedelta(hours=24)
AT_ONCE = 8
GROUP = 20


@dataclass(frozen=True, slots=True)
class Swept:
    """What was removed, or would be."""

    jobs: int = 0
    events: int = 0
    artifacts: int = 0
    size: int = 0

    def __add__(self, other: "Swept") -> "Swept":
        return Swept(
            self.jobs + other.jobs,
            self.events + other.events,
            self.artifacts + other.artifacts,
            self.size + other.size,
        )


class Housekeeper:
    """Every replica has one; they may all sweep at once, for what is gone is gone."""

    def __init__(  # noqa: PLR0913 # wiring
        self,
        bus: Bus,
        settings: Settings,
        index: JobIndex,
        control: Control,
        room: Room,
        orphans: Orphans,
        collections: CollectionControl,
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._index = index
        self._control = control
        self._room = room
        self._orphans = orphans
        self._collections = collections
        self._jobs = Jobs(bus)
        self._shelves = Shelves(bus)
        self._searched = float("-inf")

    async def keep_house(self) -> None:
        """Sweeps until cancelled."""
        await asyncio.sleep(FIRST_SWEEP_SECONDS)
        while True:
            for chore in (self._retire, self.make_room, self._search):
                await _survived(chore)
            pause = SWEEP_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311 # replicas part ways
            await asyncio.sleep(pause)

    async def _retire(self) -> None:
        if self._settings.retention_hours:
            swept = await self.cleanup(timedelta(hours=self._settings.retention_hours))
            if swept.jobs:
                log.info("old jobs removed", jobs=swept.jobs, bytes=swept.size)

    async def _search(self) -> None:
        if monotonic() - self._searched > SEARCH_SECONDS:
            await self._orphans.remove(ORPHAN_AGE)
            self._searched = monotonic()

    async def cleanup(self, max_age: timedelta | None = None, *, dry_run: bool = False) -> Swept:
        """Removes jobs that ended longer ago than `max_age`, with every trace; collections too."""
        age = DEFAULT_AGE if max_age is None else max_age
        if age < timedelta():
            raise InvalidRequestError("max_age must not be negative", reason=Reason.REQUEST_INVALID)
        try:
            before = datetime.now(UTC) - age
        except OverflowError:  # older than the calendar
            return Swept()
        swept = Swept()
        async for page in self._pages(_first_id_after(before)):
            old = [job for job in page if _ended(job) < before]
            swept += await self._weigh_all(old) if dry_run else await self._remove_all(old, before)
        if not dry_run:
            await self._collections.retire(before)
        return swept

    async def _pages(self, token: str = "") -> AsyncIterator[list[job_pb2.Job]]:
        """Ended jobs, newest first; with a token, those accepted before it."""
        while True:
            page = await self._index.page(MAX_PAGE, token, TERMINAL)
            yield page.jobs
            token = page.next_token
            if not token:
                return

    async def _weigh_all(self, jobs: Iterable[job_pb2.Job]) -> Swept:
        return sum([await self._weigh(job) for job in jobs], Swept())

    async def _remove_all(self, jobs: Iterable[job_pb2.Job], before: datetime) -> Swept:
        turn = asyncio.Semaphore(AT_ONCE)

        async def remove(job_id: str) -> Swept:
            async with turn:
                return await self._remove(job_id, before)

        removing = [remove(job.job_id) for job in jobs]
        swept = Swept()
        for result in await asyncio.gather(*removing, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            swept += result
        return swept

    async def _remove(self, job_id: str, before: datetime) -> Swept:
        try:
            kept = await self._jobs.get(job_id)
            if not kept.terminal or _ended(kept.job) >= before:
                return Swept()  # replayed meanwhile
            weight = await self._weigh(kept.job)
            removed = await self._control.delete(job_id)
        except NotFoundError:  # another replica was faster
            return Swept()
        return Swept(1, removed.events, removed.artifacts, weight.size)

    async def _weigh(self, job: job_pb2.Job) -> Swept:
        names, events, size = self._bus.names, 0, 0
        async for stored in self._bus.read(names.events_stream, names.event(job.job_id, "*")):
            events, size = events + 1, size + len(stored.data)
        files = await self._shelves.files_of(job)
        return Swept(1, events, len(files), size + sum(file.size for file in files))

    async def make_room(self) -> None:
        """Takes files of ended jobs away while their store is too full; then whole jobs."""
        artifacts = f"OBJ_{self._bus.names.artifacts_bucket}"
        for fill in await self._room.fills():
            excess = fill.used - int(fill.limit * self._settings.trim_percent / 100)
            if fill.limit and excess > 0 and fill.stream == artifacts:
                await self._drop_files(excess)
        await self._drop_jobs()

    async def _drop_files(self, excess: int) -> None:
        """Oldest first. Transcripts are small and what it is all about: they stay."""
        count = size = 0
        async for file in self._shelves.files():
            if size >= excess:
                break
            if file.name != TRANSCRIPT and await self._let_go(file):
                await self._shelves.remove(file)
                count, size = count + 1, size + file.size
        if count:
            log.warning("files removed to make room", files=count, bytes=size)

    async def _let_go(self, file: File) -> bool:
        """Whether the job needs the file no more; its record then no longer names it."""

        def forget(record: job_pb2.JobRecord) -> bool:
            if not _dispensable(record.job, file):
                return False
            kept = [found for found in record.job.artifacts if found.name != file.name]
            changed = len(kept) != len(record.job.artifacts)
            del record.job.artifacts[:]
            record.job.artifacts.extend(kept)
            return changed

        try:
            return _dispensable((await self._jobs.change(file.job_id, forget)).job, file)
        except NotFoundError:  # an orphan: looked after elsewhere
            return False

    async def _drop_jobs(self) -> None:
        """The oldest ended jobs go while that helps a store that is too full."""
        before = await self._excess()
        if not before:
            return
        pages = [[job.job_id for job in page] async for page in self._pages()]
        oldest = [job_id for page in reversed(pages) for job_id in reversed(page)]
        swept = Swept()
        for begin in range(0, len(oldest), GROUP):
            for job_id in oldest[begin : begin + GROUP]:
                swept += await self._remove(job_id, datetime.max.replace(tzinfo=UTC))
            now = await self._excess()
            if not now or now >= before:
                break
            before = now
        log.warning("a store is too full", jobs_removed=swept.jobs, still_over_by=before)

    async def _excess(self) -> int:
        """Bytes by which the stores that hold ended jobs are too full."""
        share = self._settings.trim_percent / 100
        return sum(
            max(0, fill.used - int(fill.limit * share))
            for fill in await self._room.fills()
            if fill.limit and fill.stream != self._bus.names.work_stream
        )


def _dispensable(job: job_pb2.Job, file: File) -> bool:
    """A dead job may be replayed: it needs its upload."""
    replayable = job.state == job_pb2.JOB_STATE_FAILED and file.name in (UPLOAD, SOURCE)
    return job.state in TERMINAL and not replayable


def _ended(job: job_pb2.Job) -> datetime:
    return job.end_time.ToDatetime(UTC)


def _first_id_after(moment: datetime) -> str:
    """Sorts after the id of every job accepted until then: ids are UUIDv7."""
    milliseconds = f"{max(0, int(moment.timestamp() * 1000)) + 1:012x}"
    return f"{milliseconds[:8]}-{milliseconds[8:]}"


async def _survived(chore: Callable[[], Awaitable[None]]) -> None:
    """Housekeeping that fails is tried again later; the jobs must not suffer for it."""
    try:
        await chore()
    except MeshError as error:
        log.warning("housekeeping was put off", error=str(error))
    except Exception:
        log.exception("housekeeping failed")
