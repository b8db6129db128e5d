"""Accepts collections: durable before the caller hears of it, once for each request_id."""

from dataclasses import dataclass

from structlog import get_logger

from mesh.answers import prompt
from mesh.correlation import current, new_id
from orchestrator.collections.projection import BATCH_STARTED, Projection, read_projection
from orchestrator.collections.records import CollectionStore
from orchestrator.collections.validation import checked
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import ConflictError
from orchestrator.jobs.validation import check_word
from orchestrator.pipeline.capabilities import Capabilities
from orchestrator.queue.capacity import Capacity
from orchestrator.queue.work_queue import CollectionQueue
from orchestrator.settings import Settings
from ytcaption.v1 import collection_pb2, event_pb2
from ytcaption.v1 import collection_service_pb2 as pb

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CollectionSubmission:
    """Turns requests into durable collections."""

    storage: JobStorage
    records: CollectionStore
    queue: CollectionQueue
    settings: Settings
    capabilities: Capabilities
    capacity: Capacity

    async def create(self, request: pb.CreateCollectionRequest) -> collection_pb2.Collection:
        """Returns once the collection cannot be lost; a repeated request gets the first one."""
        start = checked(request, self.settings)
        named = check_word(request.correlation_id, "correlation_id")
        await self.capabilities.check(start.options)
        with prompt(self.settings.accept_seconds):
            return await self._store(request.request_id, named, start)

    async def _store(
        self, request_id: str, named: str, start: event_pb2.StartCollection
    ) -> collection_pb2.Collection:
        reserved = await self.records.reserve(request_id)
        if reserved.accepted:
            return reserved.accepted.collection
        await self.capacity.check()
        owner = collection_pb2.Collection(
            collection_id=reserved.id, correlation_id=named or current() or new_id()
        )
        # The item, the event log, the record: a worker that finds an item without a record waits,
        # then drops it; and a record never lacks the addresses, which only the event log has.
        await self.queue.put(reserved.id)
        return await self._create_record(await self._opened(owner, start), reserved.request_key)

    async def _opened(
        self, owner: collection_pb2.Collection, start: event_pb2.StartCollection
    ) -> Projection:
        """Opens the event log; that of an earlier try of the request decides, if there is one."""
        event_log = EventLogWriter(self.storage.bus, owner, 0, patience_seconds=0)
        event = event_pb2.Event(type=BATCH_STARTED, start_collection=start)
        projection = Projection()
        try:
            await event_log.append_event(event)
        except ConflictError:  # an earlier try of this request did
            projection = await read_projection(self.storage.event_logs, owner.collection_id)
        else:
            projection.apply(event_log.last_sequence, event)
        return projection

    async def _create_record(
        self, projection: Projection, request_key: str
    ) -> collection_pb2.Collection:
        collection_id = projection.collection.collection_id
        record = collection_pb2.CollectionRecord(
            collection=projection.collection,
            request_id=request_key,
            sequence=projection.sequence,
            max_members=projection.request.max_members or self.settings.max_members,
            force=projection.request.force,
        )
        try:
            created = await self.records.create(record)
        except ConflictError:  # the same request, at the same time
            return (await self.records.get(collection_id)).collection
        log.info("collection accepted", collection_id=collection_id)
        return created.collection
