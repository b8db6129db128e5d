"""Accepting collections: durable before we say so, once for each request_id."""

from contextlib import suppress
from hashlib import sha256

from nats.js.errors import KeyWrongLastSequenceError
from structlog import get_logger

from mesh.bus import Bus
from mesh.correlation import current, new_id
from mesh.errors import NotFoundError
from orchestrator.abilities import Abilities
from orchestrator.collections.ledger import Ledger, read_ledger
from orchestrator.collections.queue import CollectionQueue
from orchestrator.collections.records import CollectionRecords, request_pointer
from orchestrator.collections.request import checked
from orchestrator.jobs import ConflictError, Jobs
from orchestrator.options import check_word
from orchestrator.room import Room
from orchestrator.settings import Settings
from orchestrator.story import StoryWriter
from ytcaption.v1 import collection_pb2, event_pb2
from ytcaption.v1 import collection_service_pb2 as pb

log = get_logger(__name__)


class Collections:
    """Turns requests into durable collections."""

    def __init__(self, bus: Bus, settings: Settings, abilities: Abilities, room: Room) -> None:
        self._bus = bus
        self._settings = settings
        self._abilities = abilities
        self._room = room
        self._jobs = Jobs(bus)
        self._records = CollectionRecords(bus)
        self._queue = CollectionQueue(bus)

    async def create(self, request: pb.CreateCollectionRequest) -> collection_pb2.Collection:
        """Returns once the collection cannot be lost; a repeated request gets the first one."""
        start = checked(request, self._settings)
        named = check_word(request.correlation_id, "correlation_id")
        await self._abilities.check(start.options)
        key = sha256(request.request_id.encode()).hexdigest() if request.request_id else ""
        collection_id = new_id()
        if key:
            collection_id = await self._jobs.claim(request_pointer(key), collection_id)
            with suppress(NotFoundError):  # new, or an earlier try died half-way
                return (await self._records.get(collection_id)).collection
        await self._room.check()
        hero = collection_pb2.Collection(
            collection_id=collection_id, correlation_id=named or current() or new_id()
        )
        # The item, the story, the record: whoever finds an item without a record waits, then
        # drops it; and a record is never without the addresses, which only the story has.
        await self._queue.put(collection_id)
        return await self._keep(await self._opened(hero, start), key)

    async def _opened(
        self, hero: collection_pb2.Collection, start: event_pb2.StartCollection
    ) -> Ledger:
        """The ledger as it begins, whoever began it: the record says what the story says."""
        story = StoryWriter(self._bus, hero, 0, patience_seconds=0)
        event = event_pb2.Event(type=event_pb2.EVENT_TYPE_START_COLLECTION, start_collection=start)
        ledger = Ledger()
        try:
            await story.append(event)
        except ConflictError:  # an earlier try of this request did
            ledger = await read_ledger(self._bus, hero.collection_id)
        else:
            ledger.apply(story.last_sequence, event)
        return ledger

    async def _keep(self, ledger: Ledger, request_key: str) -> collection_pb2.Collection:
        collection_id = ledger.collection.collection_id
        record = collection_pb2.CollectionRecord(
            collection=ledger.collection,
            request_id=request_key,
            sequence=ledger.sequence,
            max_members=ledger.request.max_members or self._settings.max_members,
            force=ledger.request.force,
        )
        try:
            kept = await self._records.create(record)
        except KeyWrongLastSequenceError:  # the same request, at the same time
            return (await self._records.get(collection_id)).collection
        log.info("collection accepted", collection_id=collection_id)
        return kept.collection
