"""Stopping and forgetting collections."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from mesh.bus import Bus, storing
from mesh.errors import MeshError, NotFoundError, UnavailableError
from mesh.reasons import Reason
from orchestrator.collections.feed import CollectionFeeds
from orchestrator.collections.ledger import Ledgers, awaits_its_job
from orchestrator.collections.queue import CollectionQueue
from orchestrator.collections.records import CollectionRecords, KeptCollection, request_pointer
from orchestrator.collections.shelf import CollectionShelf
from orchestrator.control import STOP_SECONDS, Control
from orchestrator.jobs import Jobs
from orchestrator.webhooks.queue import forget_webhooks
from ytcaption.v1 import collection_pb2

SETTLE_SECONDS = 2 * STOP_SECONDS
"""A dead conductor's collection is delivered again, and its jobs are stopped, within this time."""
MAX_NOTE = 500
AT_ONCE = 8
AT_ANY_TIME = datetime.max.replace(tzinfo=UTC)
"""Everything was settled before."""


class CollectionControl:
    """What callers may do to a collection from outside."""

    def __init__(  # noqa: PLR0913 # wiring
        self,
        bus: Bus,
        records: CollectionRecords,
        queue: CollectionQueue,
        feeds: CollectionFeeds,
        shelf: CollectionShelf,
        jobs: Control,
    ) -> None:
        self._bus = bus
        self._records = records
        self._queue = queue
        self._feeds = feeds
        self._shelf = shelf
        self._jobs = jobs
        self._ledgers = Ledgers(bus, records)

    async def cancel(self, collection_id: str, note: str) -> collection_pb2.Collection:
        """Returns the collection once it is settled; what was heard stays."""

        def ask(record: collection_pb2.CollectionRecord) -> bool:
            if record.collection.settled or record.cancel_requested:
                return False
            record.cancel_requested = True
            record.collection.cancel_note = note[:MAX_NOTE]
            return True

        kept = await self._records.change(collection_id, ask)
        if not kept.collection.settled:
            await self._until_settled(kept.id)
            kept = await self._records.get(kept.id)
        return kept.collection

    async def _until_settled(self, collection_id: str) -> None:
        try:
            async with asyncio.timeout(SETTLE_SECONDS), self._feeds.of(collection_id) as feed:
                await self._bus.client.publish(self._bus.names.cancel(collection_id))
                await feed.read_stored()
                async for _ in feed.watch(after=0):
                    pass
                # The record follows its story.
                while not (await self._records.get(collection_id)).collection.settled:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError as error:
            raise UnavailableError(
                "the collection does not stop yet; it will when its members do",
                reason=Reason.STAGE_UNAVAILABLE,
            ) from error

    async def delete(self, collection_id: str) -> int:
        """Removes every trace, members included; returns how many jobs that were."""
        await self.cancel(collection_id, "deleted")
        removed = await self._delete_jobs(collection_id)
        await self.forget(await self._records.get(collection_id))
        return removed

    async def _delete_jobs(self, collection_id: str) -> int:
        ledger = await self._ledgers.read(collection_id)
        turn = asyncio.Semaphore(AT_ONCE)

        async def delete(job_id: str) -> bool:
            async with turn:
                try:
                    await self._jobs.delete(job_id)
                except NotFoundError:  # retention, or somebody else, was faster
                    return False
            return True

        deleting = [delete(member.job_id) for member in ledger.members if member.job_id]
        return sum(await asyncio.gather(*deleting))

    async def stop_all(self) -> list[str]:
        """Cancels every collection that is not settled; returns what went wrong."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def cancel(collection_id: str) -> str:
            async with turn:
                try:
                    await self.cancel(collection_id, "removed")
                except NotFoundError:
                    return ""
                except MeshError as error:
                    return f"collection {collection_id}: {error}"
            return ""

        told = await asyncio.gather(*(cancel(one) for one in await self._shelf.unsettled()))
        return [error for error in told if error]

    async def forget_all(self) -> int:
        """Removes all settled collections, and returns how many; their jobs are somebody else's."""
        settled = await self.settled(AT_ANY_TIME)
        return sum([await self.retire(one.collection_id, AT_ANY_TIME) for one in settled])

    async def count(self) -> int:
        """How many there are, settled or not."""
        return len(await self._shelf.ids())

    async def settled(self, before: datetime) -> list[collection_pb2.Collection]:
        """Those that were settled before, as they were last read."""
        found = [self._shelf.record(one) for one in await self._shelf.ids()]
        return [
            record.collection
            for record in found
            if record is not None and _was_settled(record.collection, before)
        ]

    async def awaited_jobs(self, collection_ids: set[str]) -> set[str]:
        """Jobs these collections have not heard the end of: they would take them for deleted."""
        going = collection_ids & await self._shelf.unsettled() if collection_ids else set()
        awaited: set[str] = set()
        for collection_id in going:
            with suppress(NotFoundError):
                members = (await self._ledgers.read(collection_id)).members
                awaited |= {member.job_id for member in members if awaits_its_job(member)}
        return awaited

    async def retire(self, collection_id: str, before: datetime, *, dry_run: bool = False) -> bool:
        """Removes it if it was settled before; its jobs retire by themselves."""
        try:
            kept = await self._records.get(collection_id)
        except NotFoundError:  # another replica was faster
            return False
        if not _was_settled(kept.collection, before):
            return False  # a dead member was replayed meanwhile
        if not dry_run:
            await self.forget(kept)
        return True

    async def forget(self, kept: KeptCollection) -> None:
        """Removes what is stored of the collection itself."""
        names = self._bus.names
        await self._queue.withdraw(kept.id)
        if kept.collection.webhook_url:
            await forget_webhooks(self._bus, kept.id)  # its story tells which
        async with storing():
            await self._bus.jetstream.purge_stream(
                names.events_stream, subject=names.event(kept.id, "*")
            )
        if kept.record.request_id:
            await Jobs(self._bus).forget(request_pointer(kept.record.request_id))
        await self._records.remove(kept.id)


def _was_settled(collection: collection_pb2.Collection, before: datetime) -> bool:
    return collection.settled and collection.update_time.ToDatetime(UTC) < before
