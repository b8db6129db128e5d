"""Removes everything that is ours, in every service, and nothing else."""

import asyncio
from datetime import UTC, datetime, timedelta

from google.protobuf.message import DecodeError
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import InvalidRequestError, MeshError, NotFoundError
from mesh.reasons import Reason
from orchestrator.collections.control import CollectionControl
from orchestrator.control import Control
from orchestrator.orphans import Orphans
from orchestrator.purging import ServiceReset, purge_stages
from orchestrator.queue import WorkQueue
from orchestrator.settings import Settings
from orchestrator.shelves import Shelves
from orchestrator.stages import StateId
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

CONFIRMATION = "ERASE EVERYTHING"
AT_ONCE = 8
YOUNG = timedelta(minutes=1)
"""What is this new may belong to a job that is just being accepted."""


class FactoryReset:
    """Streams and buckets stay, empty: other replicas go on using them."""

    def __init__(  # noqa: PLR0913 # wiring
        self,
        bus: Bus,
        settings: Settings,
        control: Control,
        queue: WorkQueue,
        orphans: Orphans,
        collections: CollectionControl,
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._control = control
        self._queue = queue
        self._orphans = orphans
        self._collections = collections
        self._shelves = Shelves(bus)

    async def run(self, confirmation: str, *, dry_run: bool) -> list[ServiceReset]:
        """Whoever cannot do it is reported; the others do it all the same."""
        if confirmation != CONFIRMATION:
            raise InvalidRequestError(
                f'the confirmation must be exactly "{CONFIRMATION}"',
                reason=Reason.CONFIRMATION_MISSING,
            )
        own = ServiceReset("orchestrator")
        try:
            await (self._count(own) if dry_run else self._erase(own))
        except MeshError as error:
            own.errors.append(str(error))
        # After our jobs were stopped: until then the stages need their files.
        done = [own, *await purge_stages(self._settings, dry_run=dry_run)]
        if not dry_run:
            log.warning(
                "factory reset",
                jobs_removed=own.jobs,
                collections_removed=own.collections,
                bytes_removed=own.size,
            )
        return done

    async def _count(self, own: ServiceReset) -> None:
        """What _erase would remove of a mesh that stays as it is."""
        states, items = await self._states(), await self._items()
        nobodys = await self._orphans.remove(YOUNG, dry_run=True)
        own.jobs = len(states)
        own.collections = await self._collections.count()
        own.files = nobodys.files
        async for file in self._shelves.files():
            own.files += file.job_id in states
        own.tasks = len(items.keys() & states.keys()) + len(_stray(items, states))
        own.size = nobodys.scratch_size + await self._stored_bytes()

    async def _erase(self, own: ServiceReset) -> None:
        stored = await self._stored_bytes()
        # First of all: they would make more jobs. Those they have lose their items when stopped.
        items = await self._items()
        own.errors += await self._collections.stop_all()
        # Before the jobs are listed: whatever came until here is theirs, or nobody's.
        marks = {stream: await self._last_sequence(stream) for stream in self._swept_whole()}
        items, states = items | await self._items(), await self._states()
        removed = await self._delete_jobs(states, own)
        stray = _stray(items, states)
        for job_id in stray:
            await self._queue.withdraw(job_id)
        own.collections = await self._collections.forget_all()
        if not own.errors:
            for (stream, subject), mark in zip(
                self._swept_whole().items(), marks.values(), strict=True
            ):
                await self._purge_until(stream, subject, mark)
        nobodys = await self._orphans.remove(YOUNG)
        own.jobs = len(removed)
        own.files += nobodys.files
        own.tasks = len(items.keys() & removed) + len(stray)
        own.size = nobodys.scratch_size + max(0, stored - await self._stored_bytes())

    def _swept_whole(self) -> dict[str, str]:
        """What may be left in these once the jobs are gone is nobody's: stories, events, claims.

        The records themselves were replaced by tombstones, which tell other replicas.
        """
        names = self._bus.names
        bucket = names.jobs_bucket
        return {
            names.events_stream: names.event("*", "*"),
            names.dead_letter_stream: names.dead_letter("*"),
            names.inbox_stream: names.incoming("*"),
            names.outbox_stream: names.outgoing("*"),
            names.webhooks_stream: names.webhook("*"),
            names.deliveries_stream: names.delivery("*"),
            f"KV_{bucket}": f"$KV.{bucket}.*.>",
        }

    async def _delete_jobs(self, states: dict[str, StateId], own: ServiceReset) -> set[str]:
        """Those that wait first, lest they begin while others are stopped."""
        waiting_first = iter(sorted(states, key=lambda job_id: states[job_id]))
        removed: set[str] = set()

        async def delete_one_after_another() -> None:
            for job_id in waiting_first:
                try:
                    gone = await self._control.delete(job_id)
                except NotFoundError:  # somebody else was faster
                    continue
                except MeshError as error:
                    own.errors.append(f"job {job_id}: {error}")
                    continue
                own.files += gone.artifacts
                removed.add(job_id)

        await asyncio.gather(*(delete_one_after_another() for _ in range(AT_ONCE)))
        return removed

    async def _states(self) -> dict[str, StateId]:
        bucket = self._bus.names.jobs_bucket
        root = f"$KV.{bucket}."
        return {
            stored.subject.removeprefix(root): _state(stored.data)
            async for stored in self._bus.read(f"KV_{bucket}", f"{root}*")
            if not stored.deleted
        }

    async def _items(self) -> dict[str, datetime]:
        """Work by job, and since when it waits or runs."""
        names, found = self._bus.names, {}
        async for stored in self._bus.read(names.work_stream, names.work("*", "*")):
            item = job_pb2.WorkItem.FromString(stored.data)
            found[item.job_id] = item.enqueue_time.ToDatetime(UTC)
        return found

    async def _stored_bytes(self) -> int:
        """What the stores hold; the tombstones of records hold nothing, and stay."""
        bucket = f"KV_{self._bus.names.jobs_bucket}"
        size = 0
        for stream in self._bus.names.streams():
            if stream != bucket:
                async with storing():
                    size += (await self._bus.jetstream.stream_info(stream)).state.bytes
        async for stored in self._bus.read(bucket, ">"):
            size += 0 if stored.deleted else len(stored.data)
        return size

    async def _last_sequence(self, stream: str) -> int:
        async with storing():
            return (await self._bus.jetstream.stream_info(stream)).state.last_seq

    async def _purge_until(self, stream: str, subject: str, sequence: int) -> None:
        async with storing():
            await self._bus.jetstream.purge_stream(stream, subject=subject, seq=sequence + 1)


def _state(record: bytes) -> StateId:
    try:
        return job_pb2.JobRecord.FromString(record).job.state
    except DecodeError:
        return job_pb2.JOB_STATE_UNSPECIFIED


def _stray(items: dict[str, datetime], states: dict[str, StateId]) -> list[str]:
    """Work whose job was never accepted; what is new may be just being accepted."""
    before = datetime.now(UTC) - YOUNG
    return [job_id for job_id in items.keys() - states.keys() if items[job_id] < before]
