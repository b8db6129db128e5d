"""Factory reset: removes everything of ours in every service, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import grpc
from google.protobuf.message import DecodeError
from structlog import get_logger

from mesh.bus import Bus
from mesh.channel import open_channel
from mesh.correlation import call_metadata
from mesh.errors import InvalidRequestError, MeshError, NotFoundError
from mesh.reasons import Reason
from mesh.stores import is_filler
from mesh.tasks import map_concurrently
from mesh.tokens import optional_token
from orchestrator.collections.control import CollectionControl
from orchestrator.jobs.control import JobControl, Removed
from orchestrator.maintenance.inventory import Inventory
from orchestrator.maintenance.log_files import LogFiles
from orchestrator.maintenance.orphans import Orphans
from orchestrator.pipeline.stages import STAGES, Stage, StateId
from orchestrator.queue.work_queue import WorkQueue
from orchestrator.settings import Settings
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

CONFIRMATION = "ERASE EVERYTHING"
CONCURRENCY = 8
MIN_AGE = timedelta(minutes=1)
"""Anything younger may belong to a job that is being accepted."""
PURGE_SECONDS = 30.0


@dataclass(slots=True)
class ServiceReset:
    """What one service removed, or would."""

    name: str
    errors: list[str] = field(default_factory=list)
    removed: Removed = field(default_factory=Removed)
    logs_cleaned: bool = False
    """Whether its stored events are gone, and the log files that were moved aside."""


@dataclass(frozen=True, slots=True)
class FactoryReset:
    """Empties streams and buckets but keeps them: other replicas use them."""

    bus: Bus
    settings: Settings
    control: JobControl
    queue: WorkQueue
    orphans: Orphans
    inventory: Inventory
    collections: CollectionControl
    log_files: LogFiles
    scrub_search: Callable[[], Awaitable[None]]
    """Takes jobs that are gone out of the search index, and off its disk."""

    async def run(self, confirmation: str, *, dry_run: bool) -> list[ServiceReset]:
        """Resets every service; one that fails is reported and does not stop the others."""
        if confirmation != CONFIRMATION:
            raise InvalidRequestError(
                f'the confirmation must be exactly "{CONFIRMATION}"',
                reason=Reason.CONFIRMATION_MISSING,
            )
        own = ServiceReset("orchestrator")
        try:
            own.removed = await (self._count() if dry_run else self._erase(own.errors))
        except MeshError as error:
            own.errors.append(str(error))
        if not dry_run:
            await self.log_files.remove(datetime.now(UTC))
        own.logs_cleaned = not own.errors
        # After the jobs were stopped: until then the stages need their files.
        asked = (purge_stage(one, self.settings, dry_run=dry_run) for one in STAGES)
        results = [own, *await asyncio.gather(*asked)]
        if not dry_run:
            log.warning(
                "factory reset",
                jobs_removed=own.removed.jobs,
                collections_removed=own.removed.collections,
                bytes_removed=own.removed.size,
            )
        return results

    async def _count(self) -> Removed:
        """What _erase would remove if nothing changed meanwhile."""
        states, items = await self._states(), await self._items()
        orphans = await self.orphans.remove(MIN_AGE, dry_run=True)
        files = orphans.total.files
        async for file in self.inventory.files():
            files += file.job_id in states
        return Removed(
            jobs=len(states),
            collections=len(await self.collections.index.ids()),
            files=files,
            work_items=len(items.keys() & states.keys()) + len(_stray(items, states)),
            size=orphans.scratch.size + await self._stored_bytes(),
        )

    async def _erase(self, errors: list[str]) -> Removed:
        stored = await self._stored_bytes()
        # Collections stop first: they would create more jobs.
        items = await self._items()
        errors += await self.collections.stop_all()
        # Before the jobs are listed: everything up to here belongs to a listed job or to none.
        marks = [
            (stream, subject, (await self.bus.state(stream)).last_seq)
            for stream, subject in self._purged_streams().items()
        ]
        items, states = items | await self._items(), await self._states()
        deleted = await self._delete_jobs(states, errors)
        stray = _stray(items, states)
        for job_id in stray:
            await self.queue.withdraw(job_id)
        collections = await self.collections.forget_all()
        if not errors:
            for stream, subject, mark in marks:
                await self.bus.purge(stream, subject, until=mark)
        orphans = await self.orphans.remove(MIN_AGE)
        try:
            await self.scrub_search()
        except MeshError as error:
            errors.append(f"search index: {error}")
        return Removed(
            jobs=len(deleted),
            collections=collections,
            files=sum(deleted.values()) + orphans.total.files,
            work_items=len(items.keys() & deleted.keys()) + len(stray),
            size=orphans.scratch.size + max(0, stored - await self._stored_bytes()),
        )

    def _purged_streams(self) -> dict[str, str]:
        """Streams whose rest belongs to no job once the jobs are gone, and the subjects purged.

        Job records are replaced by tombstones, which other replicas read.
        """
        names = self.bus.names
        bucket = names.jobs_bucket
        return {
            names.events_stream: names.event("*", "*"),
            names.dead_letter_stream: names.dead_letter("*"),
            names.inbox_stream: names.incoming("*"),
            names.outbox_stream: names.outgoing("*"),
            names.webhooks_stream: names.webhook("*"),
            names.tasks_stream: names.task("*", "*", "*"),
            names.queues_stream: names.queue("*"),
            names.deliveries_stream: names.delivery("*"),
            f"KV_{bucket}": f"$KV.{bucket}.*.>",
        }

    async def _delete_jobs(self, states: dict[str, StateId], errors: list[str]) -> dict[str, int]:
        """Files removed by deleted job; queued jobs go first, so that none starts meanwhile."""
        deleted: dict[str, int] = {}

        async def delete(job_id: str) -> None:
            try:
                deleted[job_id] = (await self.control.delete(job_id)).files
            except NotFoundError:  # deleted by another caller
                return
            except MeshError as error:
                errors.append(f"job {job_id}: {error}")

        await map_concurrently(delete, sorted(states, key=states.__getitem__), at_once=CONCURRENCY)
        return deleted

    async def _states(self) -> dict[str, StateId]:
        stored = self.control.storage.jobs.stored()
        return {job_id: _state(record) async for job_id, record in stored}

    async def _items(self) -> dict[str, datetime]:
        """Work items by job, with their enqueue time."""
        names, found = self.bus.names, {}
        async for stored in self.bus.read(names.work_stream, names.work("*", "*")):
            if is_filler(stored.subject):
                continue
            item = job_pb2.WorkItem.FromString(stored.data)
            found[item.job_id] = item.enqueue_time.ToDatetime(UTC)
        return found

    async def _stored_bytes(self) -> int:
        """Bytes in all stores; tombstones count as empty."""
        bucket = f"KV_{self.bus.names.jobs_bucket}"
        size = 0
        for stream in self.bus.names.streams():
            if stream != bucket:
                size += (await self.bus.state(stream)).bytes
        async for stored in self.bus.read(bucket, ">"):
            size += 0 if stored.deleted else len(stored.data)
        return size


def _state(record: bytes) -> StateId:
    try:
        return job_pb2.JobRecord.FromString(record).job.state
    except DecodeError:
        return job_pb2.JOB_STATE_UNSPECIFIED


def _stray(items: dict[str, datetime], states: dict[str, StateId]) -> list[str]:
    """Work items whose job was never accepted; young ones may be in acceptance."""
    before = datetime.now(UTC) - MIN_AGE
    return [job_id for job_id in items.keys() - states.keys() if items[job_id] < before]


async def purge_stage(stage: Stage, settings: Settings, *, dry_run: bool) -> ServiceReset:
    """Each replica by itself: a balanced call would reach only one. An error names the replica."""
    total, token = ServiceReset(stage.name), optional_token(settings.stages_token_file)
    for address in stage.addresses(settings).split(","):
        async with open_channel(
            address.strip(), stage.service, tls=settings.tls, token=token
        ) as channel:
            try:
                done = await stage.stub(channel).Purge(
                    stage.purge_request(dry_run=dry_run),
                    timeout=PURGE_SECONDS,
                    metadata=call_metadata(),
                )
            except grpc.aio.AioRpcError as error:
                total.errors.append(f"{address}: {error.details() or error.code().name}")
                continue
        total.removed += Removed(files=done.files_removed, size=done.bytes_removed)
    return total
