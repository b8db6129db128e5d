"""The collection worker: takes items of collections and runs a controller for each."""

from nats.aio.msg import Msg
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import outlast
from mesh.errors import NotFoundError
from orchestrator.collections.controller import CollectionController, Dependencies
from orchestrator.collections.projection import read_projection
from orchestrator.collections.records import VersionedCollection
from orchestrator.jobs.lease import LostError
from orchestrator.jobs.storage import PATIENCE_SECONDS
from orchestrator.jobs.store import ConflictError
from orchestrator.queue.consumers import Consumer, wait_for_record
from orchestrator.queue.work_queue import MAX_PENDING, id_of_subject
from orchestrator.settings import Settings
from orchestrator.worker.retry import Backoff
from ytcaption.v1 import collection_pb2

log = get_logger(__name__)

DURABLE = "conductors"
"""A wire name: the consumer of running installations."""
LONGEST_WAIT_SECONDS = 30.0


class CollectionWorker(Consumer):
    """Runs many collections at once; a collection is run by one replica at a time."""

    def __init__(self, dependencies: Dependencies, settings: Settings) -> None:
        self._dependencies = dependencies
        backoff = Backoff(settings.retry_seconds, LONGEST_WAIT_SECONDS)
        bus = dependencies.storage.bus
        super().__init__(
            bus,
            bus.names.collections_stream,
            DURABLE,
            settings.ack_wait_seconds,
            max_deliver=-1,
            max_ack_pending=MAX_PENDING,
            at_once=settings.max_collections,
            retry_after=lambda message, _: backoff.delay(message.metadata.num_delivered),
            lost=(LostError, ConflictError),
            heartbeat=True,
        )

    async def _handle(self, message: Msg) -> float | None:
        """Seconds until the item should be delivered again, or None once nothing is left to do."""
        collection_id = id_of_subject(message.subject)
        with bound_contextvars(collection_id=collection_id):
            try:
                versioned = await outlast(lambda: self._dependencies.records.get(collection_id))
            except NotFoundError:
                return wait_for_record(message.metadata.timestamp, message.metadata.num_delivered)
            with bound_contextvars(correlation_id=versioned.collection.correlation_id):
                await self._run(versioned)
        return None

    async def _run(self, versioned: VersionedCollection) -> None:
        event_logs = self._dependencies.storage.event_logs
        projection = await read_projection(
            event_logs, versioned.id, patience_seconds=PATIENCE_SECONDS
        )
        if projection.sequence:
            await CollectionController(self._dependencies, versioned, projection).run()
        else:
            await self._give_up(versioned)

    async def _give_up(self, versioned: VersionedCollection) -> None:
        """Settles a collection whose event log was removed: its members are no longer known."""
        log.warning("a collection without an event log is settled as it is")
        versioned.collection.settled = True
        if versioned.collection.state == collection_pb2.COLLECTION_STATE_RUNNING:
            versioned.collection.state = collection_pb2.COLLECTION_STATE_PARTIAL
        await self._dependencies.records.save(versioned)
