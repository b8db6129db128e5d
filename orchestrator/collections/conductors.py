"""Takes collections up and sees each through, many at once."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import outlast
from mesh.errors import MeshError, NotFoundError
from mesh.tasks import side_by_side
from orchestrator.attempt import PATIENCE_SECONDS
from orchestrator.collections.conductor import Conductor
from orchestrator.collections.instruments import Instruments
from orchestrator.collections.ledger import read_ledger
from orchestrator.collections.queue import CollectionQueue, Items, collection_of_subject
from orchestrator.collections.records import KeptCollection
from orchestrator.jobs import ConflictError
from orchestrator.lease import LostError
from orchestrator.queue import WorkQueue, give_back
from orchestrator.settings import Settings
from ytcaption.v1 import collection_pb2

log = get_logger(__name__)

HALF_MADE_SECONDS = 30
"""CreateCollection stores the item first: one whose record never follows is dropped after this."""

LONGEST_WAIT_SECONDS = 30.0


class Conductors:
    """Every replica has some; a collection has one at a time."""

    def __init__(
        self,
        instruments: Instruments,
        settings: Settings,
        collections: CollectionQueue,
        work: WorkQueue,
    ) -> None:
        self._with = instruments
        self._items = Items(instruments.bus, collections, settings.ack_wait_seconds)
        self._work = work
        self._retry_seconds = settings.retry_seconds
        self._places = asyncio.Semaphore(settings.max_collections)

    async def run(self) -> None:
        """Conducts until cancelled; collections under way are then given back."""
        async with self._items.listening():
            await side_by_side(self._next, self._take)

    async def _next(self) -> Msg:
        """The next item, and a place for it."""
        await self._places.acquire()
        try:
            return await self._items.next()
        except asyncio.CancelledError:
            self._places.release()
            raise

    async def _take(self, message: Msg) -> None:
        collection_id = collection_of_subject(message.subject)
        try:
            with bound_contextvars(collection_id=collection_id):
                await self._handle(message, collection_id)
        finally:
            self._places.release()

    async def _handle(self, message: Msg, collection_id: str) -> None:
        """One delivery; whatever goes wrong here must not end the others."""
        try:
            async with self._work.kept_alive(message):
                wait = await self._conduct(message, collection_id)
            if wait is None:
                await message.ack_sync()
            else:
                await message.nak(delay=wait)
                self._items.expect(wait)
        except (LostError, ConflictError):
            log.warning("another orchestrator has the collection")
        except asyncio.CancelledError:
            await asyncio.shield(give_back(message))
            raise
        except Exception as error:  # unacknowledged, so it is delivered again
            expected = isinstance(error, MeshError)
            log.warning(
                "the collection will be delivered again", error=str(error), exc_info=not expected
            )
            await self._put_off(message)

    async def _put_off(self, message: Msg) -> None:
        wait = self._retry_seconds * 2 ** min(message.metadata.num_delivered, 10)
        wait = min(wait, LONGEST_WAIT_SECONDS)
        with suppress(NatsError):  # then it comes back by itself
            await message.nak(delay=wait)
            self._items.expect(wait)

    async def _conduct(self, message: Msg, collection_id: str) -> float | None:
        """Seconds until it should be tried again, or None if nothing is left to do."""
        try:
            kept = await outlast(lambda: self._with.records.get(collection_id))
        except NotFoundError:
            return _wait_for_record(message)
        with bound_contextvars(correlation_id=kept.collection.correlation_id):
            ledger = await read_ledger(
                self._with.bus, collection_id, patience_seconds=PATIENCE_SECONDS
            )
            if ledger.sequence:
                await Conductor(self._with, kept, ledger).conduct()
            else:
                await self._give_up(kept)
        return None

    async def _give_up(self, kept: KeptCollection) -> None:
        """Its story was too old to be kept, or somebody purged it; so nobody knows its members."""
        log.warning("a collection without a story is settled as it is")
        kept.collection.settled = True
        if kept.collection.state == collection_pb2.COLLECTION_STATE_RUNNING:
            kept.collection.state = collection_pb2.COLLECTION_STATE_PARTIAL
        await self._with.records.save(kept)


def _wait_for_record(message: Msg) -> float | None:
    age = (datetime.now(UTC) - message.metadata.timestamp).total_seconds()
    if age < HALF_MADE_SECONDS:
        return 0.1 if age < 1 else 2.0
    log.warning("a collection that was never accepted is dropped")
    return None
