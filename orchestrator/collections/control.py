"""Cancels and deletes collections, on request of callers, operators and retention."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from mesh.bus import Bus
from mesh.errors import MeshError, NotFoundError, UnavailableError
from mesh.reasons import Reason
from mesh.tasks import map_concurrently
from orchestrator.collections.feed import CollectionFeed
from orchestrator.collections.index import CollectionIndex
from orchestrator.collections.members import awaits_its_job
from orchestrator.collections.projection import Projections
from orchestrator.collections.records import CollectionStore, VersionedCollection
from orchestrator.jobs.control import STOP_SECONDS, JobControl
from orchestrator.queue.work_queue import CollectionQueue
from orchestrator.tasks.control import TaskControl
from orchestrator.watch.event_feed import FeedPool
from orchestrator.webhooks.queue import forget_webhooks
from ytcaption.v1 import collection_pb2

SETTLE_SECONDS = 2 * STOP_SECONDS
"""The collection of a dead worker is delivered again, and its jobs are stopped, within this."""
MAX_NOTE = 500
AT_ONCE = 8
AT_ANY_TIME = datetime.max.replace(tzinfo=UTC)
"""Later than any update: matches every settled collection."""


@dataclass(frozen=True, slots=True)
class CollectionControl:
    """Cancels, deletes and retires collections."""

    bus: Bus
    records: CollectionStore
    queue: CollectionQueue
    feeds: FeedPool[CollectionFeed]
    index: CollectionIndex
    projections: Projections
    jobs: JobControl
    tasks: TaskControl

    async def cancel(self, collection_id: str, note: str) -> collection_pb2.Collection:
        """Returns the collection once it is settled; finished captions stay."""

        def ask(record: collection_pb2.CollectionRecord) -> bool:
            if record.collection.settled or record.cancel_requested:
                return False
            record.cancel_requested = True
            record.collection.cancel_note = note[:MAX_NOTE]
            return True

        versioned = await self.records.change(collection_id, ask)
        if not versioned.collection.settled:
            await self._until_settled(versioned.id)
            versioned = await self.records.get(versioned.id)
        return versioned.collection

    async def _until_settled(self, collection_id: str) -> None:
        try:
            async with asyncio.timeout(SETTLE_SECONDS), self.feeds.of(collection_id) as feed:
                await self.bus.client.publish(self.bus.names.cancel(collection_id))
                await feed.until_ended()
                # The record follows its event log.
                while not (await self.records.get(collection_id)).collection.settled:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError as error:
            raise UnavailableError(
                "the collection does not stop yet; it will when its members do",
                reason=Reason.STAGE_UNAVAILABLE,
            ) from error

    async def delete(self, collection_id: str) -> int:
        """Removes the collection and the jobs of its members; returns the number of jobs."""
        await self.cancel(collection_id, "deleted")
        removed = await self._delete_jobs(collection_id)
        await self.forget(await self.records.get(collection_id))
        return removed

    async def _delete_jobs(self, collection_id: str) -> int:
        projection = await self.projections.read(collection_id)

        async def delete(job_id: str) -> bool:
            try:
                await self.jobs.delete(job_id)
            except NotFoundError:  # retention, or another caller, was faster
                return False
            return True

        job_ids = [member.job_id for member in projection.members if member.job_id]
        return sum(await map_concurrently(delete, job_ids, at_once=AT_ONCE))

    async def stop_all(self) -> list[str]:
        """Cancels every unsettled collection; returns the errors."""

        async def cancel(collection_id: str) -> str:
            try:
                await self.cancel(collection_id, "removed")
            except NotFoundError:
                return ""
            except MeshError as error:
                return f"collection {collection_id}: {error}"
            return ""

        unsettled = await self.index.unsettled()
        errors = await map_concurrently(cancel, unsettled, at_once=AT_ONCE)
        return [error for error in errors if error]

    async def forget_all(self) -> int:
        """Removes all settled collections without their jobs; returns how many."""
        settled = await self.settled(AT_ANY_TIME)
        return sum([await self.retire(one.collection_id, AT_ANY_TIME) for one in settled])

    async def settled(self, before: datetime) -> list[collection_pb2.Collection]:
        """Collections settled before that time, as last read."""
        found = [self.index.record(one) for one in await self.index.ids()]
        return [
            record.collection
            for record in found
            if record is not None and _was_settled(record.collection, before)
        ]

    async def awaited_jobs(self, collection_ids: set[str]) -> set[str]:
        """Jobs these collections still wait for: deleted, they would count as cancelled."""
        going = collection_ids & await self.index.unsettled() if collection_ids else set()
        awaited: set[str] = set()
        for collection_id in going:
            with suppress(NotFoundError):
                members = (await self.projections.read(collection_id)).members
                awaited |= {member.job_id for member in members if awaits_its_job(member)}
        return awaited

    async def retire(self, collection_id: str, before: datetime, *, dry_run: bool = False) -> bool:
        """Removes a collection that was settled before that time; its jobs retire by themselves."""
        try:
            versioned = await self.records.get(collection_id)
        except NotFoundError:  # another replica was faster
            return False
        if not _was_settled(versioned.collection, before):
            return False  # a dead member was replayed meanwhile
        if not dry_run:
            await self.forget(versioned)
        return True

    async def forget(self, versioned: VersionedCollection) -> None:
        """Removes everything stored for the collection itself."""
        names = self.bus.names
        await self.queue.withdraw(versioned.id)
        await self.tasks.delete_of(versioned.id)
        await forget_webhooks(self.bus, versioned.collection)  # the event log names them
        await self.bus.purge(names.events_stream, names.event(versioned.id, "*"))
        await self.records.release(versioned.record.request_id)
        await self.records.remove(versioned.id)


def _was_settled(collection: collection_pb2.Collection, before: datetime) -> bool:
    return collection.settled and collection.update_time.ToDatetime(UTC) < before
