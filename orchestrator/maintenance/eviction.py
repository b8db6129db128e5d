"""Eviction: makes room in a store that is too full; files first, then the oldest ended work."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from nats.js.errors import NotFoundError as NoMessageError
from structlog import get_logger

from mesh.bus import storing
from mesh.errors import NotFoundError
from mesh.watching import TERMINAL
from orchestrator.collections.control import AT_ANY_TIME
from orchestrator.jobs.artifacts import SOURCE, TRANSCRIPT, UPLOAD
from orchestrator.jobs.control import Removed
from orchestrator.jobs.storage import JobStorage
from orchestrator.maintenance.inventory import Inventory, StoredFile
from orchestrator.maintenance.retention import Ended, Limit, Retention
from orchestrator.queue.capacity import Capacity
from orchestrator.settings import Settings
from orchestrator.tasks.records import TaskIndex
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

BATCH = 20
"""Items removed before the stores are measured again."""
CLOCK_MARGIN = timedelta(hours=1)
"""The last event is stored a little after the end, by another clock."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """Removes no more than needed, and nothing that would free no room."""

    storage: JobStorage
    inventory: Inventory
    settings: Settings
    capacity: Capacity
    retention: Retention
    tasks: TaskIndex

    async def make_room(self) -> None:
        """Removes files of ended jobs while their store is too full, then the oldest ended work."""
        excess = (await self._excess()).get(self.inventory.stream)
        if excess:
            await self._drop_files(excess)
        await self._drop_oldest()

    async def _excess(self) -> dict[str, int]:
        """Bytes over the limit, by store; only stores that hold ended work."""
        share = self.settings.trim_percent / 100
        over = {
            fill.stream: fill.used - int(fill.limit * share)
            for fill in await self.capacity.usage()
            if fill.limit and fill.stream != self.storage.bus.names.work_stream
        }
        return {stream: excess for stream, excess in over.items() if excess > 0}

    async def _drop_files(self, excess: int) -> None:
        """Removes files oldest first. Transcripts are small and stay."""
        count = size = 0
        async for file in self.inventory.files():
            if size >= excess:
                break
            if file.name != TRANSCRIPT and await self._release(file):
                await self.inventory.remove(file)
                count, size = count + 1, size + file.size
        if count:
            log.warning("evicted files from a full store", files=count, bytes=size)

    async def _release(self, file: StoredFile) -> bool:
        """Whether the job needs the file no longer; removes it from the record first."""

        def drop(record: job_pb2.JobRecord) -> bool:
            if not _dispensable(record.job, file):
                return False
            kept = [found for found in record.job.artifacts if found.name != file.name]
            changed = len(kept) != len(record.job.artifacts)
            del record.job.artifacts[:]
            record.job.artifacts.extend(kept)
            return changed

        try:
            return _dispensable((await self.storage.jobs.change(file.job_id, drop)).job, file)
        except NotFoundError:  # an orphan: see orphans.py
            return False

    async def _drop_oldest(self) -> None:
        """Removes ended jobs and settled collections, oldest first, while that frees room."""
        over = await self._excess()
        if not over:
            return
        oldest = iter(await self.retention.candidates(Limit(AT_ANY_TIME)))
        with_files = {self._holder(file.job_id) async for file in self.inventory.files()}
        logs_since = await self._event_logs_since()
        removed = Removed()

        def frees_room(ended: Ended) -> bool:
            """Every candidate has a record; an event log, files and dead letters only some have."""
            names = self.storage.bus.names
            holds = {
                f"KV_{names.jobs_bucket}": True,
                names.events_stream: ended.time > logs_since,
                self.inventory.stream: ended.id in with_files,
                names.dead_letter_stream: ended.may_have_dead_letters,
            }
            return any(holds.get(stream) for stream in over)

        while over and (batch := list(islice(filter(frees_room, oldest), BATCH))):
            for ended in batch:
                removed += await self.retention.remove(ended, AT_ANY_TIME)
            before, over = over, await self._excess()
            if sum(over.values()) >= sum(before.values()):  # more is stored than removed
                break
        log.warning(
            "evicted ended work from a full store",
            jobs_removed=removed.jobs,
            collections_removed=removed.collections,
            still_over_by=sum(over.values()),
        )

    def _holder(self, id_: str) -> str:
        """What has to be removed for a file to go: its job, or the collection of its task."""
        task = self.tasks.record(id_)
        return task.collection_id if task is not None else id_

    async def _event_logs_since(self) -> datetime:
        """Work that ended before has no event log left: the oldest stored event is younger."""
        bus = self.storage.bus
        stream = bus.names.events_stream
        state = await bus.state(stream)
        with suppress(NoMessageError):  # removed meanwhile
            if state.messages:
                async with storing():
                    oldest = (await bus.jetstream.get_msg(stream, state.first_seq)).time
                if oldest:
                    return oldest - CLOCK_MARGIN
        return datetime.min.replace(tzinfo=UTC)


def _dispensable(job: job_pb2.Job, file: StoredFile) -> bool:
    """Whether the job can do without the file; a replay of a failed job needs its upload."""
    replayable = job.state == job_pb2.JOB_STATE_FAILED and file.name in (UPLOAD, SOURCE)
    return job.state in TERMINAL and not replayable
