"""Retention: removes jobs that ended, and collections that settled, longer ago than allowed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from mesh.errors import InvalidRequestError, NotFoundError
from mesh.watching import TERMINAL
from orchestrator.collections.control import CollectionControl
from orchestrator.jobs.control import JobControl, Removed
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.storage import JobStorage
from orchestrator.maintenance.inventory import Inventory
from orchestrator.maintenance.owners import OwnerStore
from orchestrator.queue.paging import MAX_PAGE
from ytcaption.v1 import job_pb2

DEFAULT_AGE = timedelta(hours=24)
CONCURRENCY = 8
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Ended:
    """An ended job or a settled collection; sorts oldest first.

    A collection settles after its jobs have ended, so it sorts behind them.
    """

    time: datetime
    is_collection: bool
    id: str
    may_have_dead_letters: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """What ended before this is removed; owners may have a time of their own."""

    before: datetime
    owners: dict[str, datetime] = field(default_factory=dict)

    def of(self, owner: str) -> datetime:
        """That of one owner."""
        return self.owners.get(owner, self.before)

    @property
    def latest(self) -> datetime:
        """What ended later stays, of any owner."""
        return max([self.before, *self.owners.values()])


@dataclass(frozen=True, slots=True)
class Retention:
    """Safe to run in every replica at once. A dry run takes the same steps but the last."""

    storage: JobStorage
    inventory: Inventory
    index: JobIndex
    control: JobControl
    collections: CollectionControl
    owners: OwnerStore

    async def cleanup(self, max_age: timedelta | None = None, *, dry_run: bool = False) -> Removed:
        """Removes everything that ended longer ago than `max_age`, with every trace."""
        before = moment_before(max_age)
        if before is None:
            return Removed()
        return await self._remove_all(Limit(before), dry_run=dry_run)

    async def retain(self, usual: timedelta | None) -> Removed:
        """Removes what ended longer ago than the usual time, or than its owner's; None: never."""
        owners = {owner: _ago(age) for owner, age in (await self.owners.ages()).items()}
        if usual is None and not owners:
            return Removed()
        return await self._remove_all(Limit(_NEVER if usual is None else _ago(usual), owners))

    async def _remove_all(self, limit: Limit, *, dry_run: bool = False) -> Removed:
        candidates = iter(await self.candidates(limit))

        async def remove_in_turn() -> Removed:
            removed = Removed()
            for ended in candidates:
                removed += await self.remove(ended, limit.of(ended.owner), dry_run=dry_run)
            return removed

        workers = [remove_in_turn() for _ in range(CONCURRENCY)]
        total = Removed()
        for result in await asyncio.gather(*workers, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            total += result
        return total

    async def candidates(self, limit: Limit) -> list[Ended]:
        """Everything that ended before the limit, oldest first."""
        jobs: list[Ended] = []
        members: dict[str, str] = {}
        async for job in self._ended_jobs(limit):
            dead_letters = job.state == job_pb2.JOB_STATE_FAILED or bool(job.webhook_url)
            jobs.append(Ended(_end_of(job), False, job.job_id, dead_letters, job.owner))
            if job.collection_id:
                members[job.job_id] = job.collection_id
        # After the jobs were listed: a member not awaited now has been counted by its collection.
        awaited = await self.collections.awaited_jobs(set(members.values()))
        settled = await self.collections.settled(limit.latest)
        return sorted(
            [
                *(job for job in jobs if job.id not in awaited),
                *(
                    Ended(updated, True, one.collection_id, owner=one.owner)
                    for one in settled
                    if (updated := one.update_time.ToDatetime(UTC)) < limit.of(one.owner)
                ),
            ]
        )

    async def _ended_jobs(self, limit: Limit) -> AsyncIterator[job_pb2.Job]:
        token = _first_id_after(limit.latest)
        while True:
            page = await self.index.page(MAX_PAGE, token, TERMINAL)
            for job in page.items:
                if _end_of(job) < limit.of(job.owner):
                    yield job
            token = page.next_token
            if not token:
                return

    async def remove(self, ended: Ended, before: datetime, *, dry_run: bool = False) -> Removed:
        """Removes every trace, unless it was reopened or another replica removed it first."""
        try:
            if ended.is_collection:
                return await self._remove_collection(ended.id, before, dry_run=dry_run)
            return await self._remove_job(ended.id, before, dry_run=dry_run)
        except NotFoundError:
            return Removed()

    async def _remove_job(self, job_id: str, before: datetime, *, dry_run: bool) -> Removed:
        current = await self.storage.jobs.get(job_id)
        if not current.terminal or _end_of(current.job) >= before:
            return Removed()  # replayed meanwhile
        event_log = await self._event_log(job_id)
        files = await self.inventory.files_of(current.job)
        if not dry_run:
            await self.control.delete(job_id)
        return event_log + Removed(jobs=1, files=len(files), size=sum(file.size for file in files))

    async def _remove_collection(
        self, collection_id: str, before: datetime, *, dry_run: bool
    ) -> Removed:
        event_log = await self._event_log(collection_id)
        removed = await self.collections.retire(collection_id, before, dry_run=dry_run)
        return event_log + Removed(collections=1) if removed else Removed()

    async def _event_log(self, id_: str) -> Removed:
        bus, events, size = self.storage.bus, 0, 0
        async for stored in bus.read(bus.names.events_stream, bus.names.event(id_, "*")):
            events, size = events + 1, size + len(stored.data)
        return Removed(events=events, size=size)


def moment_before(max_age: timedelta | None) -> datetime | None:
    """When something of this age ended; None if that is older than the calendar."""
    age = DEFAULT_AGE if max_age is None else max_age
    if age < timedelta():
        raise InvalidRequestError("max_age must not be negative")
    try:
        return datetime.now(UTC) - age
    except OverflowError:
        return None


def _ago(age: timedelta) -> datetime:
    return moment_before(age) or _NEVER


def _end_of(job: job_pb2.Job) -> datetime:
    return job.end_time.ToDatetime(UTC)


def _first_id_after(moment: datetime) -> str:
    """Sorts after the id of every job accepted until then: ids are UUIDv7."""
    milliseconds = f"{max(0, int(moment.timestamp() * 1000)) + 1:012x}"
    return f"{milliseconds[:8]}-{milliseconds[8:]}-0000-0000-000000000000"
