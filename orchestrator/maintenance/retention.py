"""What has ended and may go: ended jobs and settled collections, and how each goes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from mesh.bus import Bus
from mesh.errors import NotFoundError
from orchestrator.collections.control import CollectionControl
from orchestrator.control import Control
from orchestrator.index import JobIndex
from orchestrator.jobs import TERMINAL, Jobs
from orchestrator.paging import MAX_PAGE
from orchestrator.shelves import Shelves
from ytcaption.v1 import job_pb2


@dataclass(frozen=True, slots=True)
class Swept:
    """What was removed, or would be."""

    jobs: int = 0
    collections: int = 0
    events: int = 0
    artifacts: int = 0
    size: int = 0

    def __add__(self, other: "Swept") -> "Swept":
        return Swept(
            self.jobs + other.jobs,
            self.collections + other.collections,
            self.events + other.events,
            self.artifacts + other.artifacts,
            self.size + other.size,
        )


@dataclass(frozen=True, slots=True, order=True)
class Ended:
    """A job or a collection that nobody waits for any more; sorted, the oldest comes first.

    A collection is settled after its jobs have ended, so it outlives them in this order.
    """

    time: datetime
    is_collection: bool
    id: str
    may_have_letters: bool = False


class Removal:
    """A dry run goes the same way and only leaves out the last step: it counts the same."""

    def __init__(
        self, bus: Bus, index: JobIndex, control: Control, collections: CollectionControl
    ) -> None:
        self._bus = bus
        self._index = index
        self._control = control
        self._collections = collections
        self._jobs = Jobs(bus)
        self._shelves = Shelves(bus)

    async def candidates(self, before: datetime) -> list[Ended]:
        """All that ended before then, oldest first."""
        jobs: list[Ended] = []
        members: dict[str, str] = {}
        async for job in self._ended_jobs(before):
            letters = job.state == job_pb2.JOB_STATE_FAILED or bool(job.webhook_url)
            jobs.append(Ended(_end_of(job), False, job.job_id, letters))
            if job.collection_id:
                members[job.job_id] = job.collection_id
        # Asked after the jobs were listed: whoever is not waited for now has been heard of.
        awaited = await self._collections.awaited_jobs(set(members.values()))
        settled = await self._collections.settled(before)
        return sorted(
            [
                *(job for job in jobs if job.id not in awaited),
                *(
                    Ended(one.update_time.ToDatetime(UTC), True, one.collection_id)
                    for one in settled
                ),
            ]
        )

    async def _ended_jobs(self, before: datetime) -> AsyncIterator[job_pb2.Job]:
        token = _first_id_after(before)
        while True:
            page = await self._index.page(MAX_PAGE, token, TERMINAL)
            for job in page.jobs:
                if _end_of(job) < before:
                    yield job
            token = page.next_token
            if not token:
                return

    async def remove(self, ended: Ended, before: datetime, *, dry_run: bool = False) -> Swept:
        """Removes every trace, unless it goes on again; nothing if another was faster."""
        try:
            if ended.is_collection:
                return await self._remove_collection(ended.id, before, dry_run=dry_run)
            return await self._remove_job(ended.id, before, dry_run=dry_run)
        except NotFoundError:
            return Swept()

    async def _remove_job(self, job_id: str, before: datetime, *, dry_run: bool) -> Swept:
        kept = await self._jobs.get(job_id)
        if not kept.terminal or _end_of(kept.job) >= before:
            return Swept()  # replayed meanwhile
        story = await self._story(job_id)
        files = await self._shelves.files_of(kept.job)
        if not dry_run:
            await self._control.delete(job_id)
        held = Swept(jobs=1, artifacts=len(files), size=sum(file.size for file in files))
        return story + held

    async def _remove_collection(
        self, collection_id: str, before: datetime, *, dry_run: bool
    ) -> Swept:
        story = await self._story(collection_id)
        gone = await self._collections.retire(collection_id, before, dry_run=dry_run)
        return story + Swept(collections=1) if gone else Swept()

    async def _story(self, id_: str) -> Swept:
        names, events, size = self._bus.names, 0, 0
        async for stored in self._bus.read(names.events_stream, names.event(id_, "*")):
            events, size = events + 1, size + len(stored.data)
        return Swept(events=events, size=size)


def _end_of(job: job_pb2.Job) -> datetime:
    return job.end_time.ToDatetime(UTC)


def _first_id_after(moment: datetime) -> str:
    """Sorts after the id of every job accepted until then: ids are UUIDv7."""
    milliseconds = f"{max(0, int(moment.timestamp() * 1000)) + 1:012x}"
    return f"{milliseconds[:8]}-{milliseconds[8:]}"
