"""Accepts collections: checked, durable before the caller hears of it, once for each request_id."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from structlog import get_logger

from mesh import identity as caller
from mesh.answers import prompt
from mesh.correlation import current, new_id
from mesh.errors import InvalidRequestError
from mesh.job_options import MAX_URL_BYTES
from mesh.messages import copy_shared
from mesh.period import wanted_days
from mesh.searches import is_search
from orchestrator.access.audit import about
from orchestrator.collections.projection import BATCH_STARTED, Projection, read_projection
from orchestrator.collections.records import CollectionStore, VersionedCollection
from orchestrator.collections.specs import CheckSpecs
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import ConflictError, ReservedId
from orchestrator.jobs.validation import (
    check_duration,
    check_scheduling,
    check_url,
    check_word,
    resolve,
)
from orchestrator.metrics import COLLECTIONS_ACCEPTED
from orchestrator.pipeline.capabilities import Capabilities
from orchestrator.queue.capacity import Capacity
from orchestrator.queue.work_queue import CollectionQueue
from orchestrator.quotas.quotas import Quotas
from orchestrator.quotas.usage import (
    AUDIO_HOURS,
    COLLECTIONS,
    STORED_BYTES,
    WEBHOOKS,
    LimitId,
)
from orchestrator.settings import Settings
from orchestrator.webhooks.addresses import check_webhook
from ytcaption.v1 import collection_pb2, event_pb2
from ytcaption.v1 import collection_service_pb2 as pb

log = get_logger(__name__)

ReservedCollection: TypeAlias = ReservedId[VersionedCollection]

MAX_SOURCES = 20
MAX_IN_FLIGHT = 1000
MAX_TITLE = 200
MAX_DAYS = 30
"""Retention removes event logs after this."""
MAX_BYTES = 512 * 1024
"""All addresses together: they are one message of the event log."""


def checked(
    request: pb.CreateCollectionRequest, settings: Settings, check_specs: CheckSpecs
) -> event_pb2.StartCollection:
    """The first event of the collection's log: the request with every default filled in."""
    scheduling = check_scheduling(request)
    sources = [_check_source(source) for source in _distinct(request.sources, "sources")]
    addresses = _distinct(request.addresses, "addresses")
    _check_amount(request, sources, addresses, settings)
    _check_days(request)
    check_word(request.request_id, "request_id")
    start = event_pb2.StartCollection()
    copy_shared(request, start)
    check_specs(request, start)
    start.sources[:] = sources
    start.addresses[:] = addresses
    start.options.CopyFrom(resolve(request.options))
    start.max_in_flight = request.max_in_flight or settings.max_in_flight
    start.title = _check_title(request.title)
    start.webhook_url = check_webhook(request.webhook_url, settings)
    start.caller, start.priority = scheduling.caller, scheduling.priority
    start.owner = caller.current().subject
    asked = request.group if request.HasField("group") else None
    start.group = caller.current().sharing(asked)
    if request.HasField("timeout"):
        _check_timeout(request)
    elif settings.fan_in_seconds:
        start.timeout.FromMilliseconds(round(settings.fan_in_seconds * 1000))
    return start


def _distinct(given: Iterable[str], field: str) -> list[str]:
    """The stripped values without duplicates, in their order."""
    found = list(dict.fromkeys(one.strip() for one in given))
    if "" in found:
        raise InvalidRequestError(f"one of {field} is empty")
    if any(len(one.encode()) > MAX_URL_BYTES for one in found):
        raise InvalidRequestError(f"one of {field} has more than {MAX_URL_BYTES} bytes")
    return found


def _check_source(source: str) -> str:
    """Checks the form alone; whether the source exists, only the downloader knows."""
    return source if is_search(source) else check_url(source)


def _check_amount(
    request: pb.CreateCollectionRequest,
    sources: list[str],
    addresses: list[str],
    settings: Settings,
) -> None:
    if not sources and not addresses and not request.source_specs:
        raise InvalidRequestError("nothing to collect: name sources, addresses or source_specs")
    if len(sources) > MAX_SOURCES:
        raise InvalidRequestError(f"at most {MAX_SOURCES} sources")
    if not 0 <= request.max_in_flight <= MAX_IN_FLIGHT:
        raise InvalidRequestError(
            f"max_in_flight must be 1 to {MAX_IN_FLIGHT}, or 0 for the default"
        )
    if not 0 <= request.max_members <= settings.max_members:
        raise InvalidRequestError(f"max_members must be 1 to {settings.max_members}, or 0 for that")
    most = request.max_members or settings.max_members
    if len(addresses) > most:
        raise InvalidRequestError(f"{len(addresses)} addresses, but at most {most} members")
    if sum(len(one.encode()) for one in (*sources, *addresses)) > MAX_BYTES:
        raise InvalidRequestError(f"the addresses have more than {MAX_BYTES} bytes together")


def _check_days(request: pb.CreateCollectionRequest) -> None:
    days = wanted_days(request.from_date, request.to_date, request.period)
    if days and not request.sources and not request.source_specs:
        raise InvalidRequestError(
            "from_date, to_date and period need sources: they select what these list"
        )


def _check_timeout(request: pb.CreateCollectionRequest) -> None:
    seconds = check_duration(request.timeout, "timeout").total_seconds()
    if not 0 < seconds <= MAX_DAYS * 86_400:
        raise InvalidRequestError(f"timeout must be above 0 and at most {MAX_DAYS} days")


def _check_title(title: str) -> str:
    title = title.strip()
    if len(title) > MAX_TITLE or not title.isprintable():
        raise InvalidRequestError(f"title must be at most {MAX_TITLE} printable characters")
    return title


@dataclass(frozen=True, slots=True)
class CollectionSubmission:
    """Turns requests into durable collections."""

    storage: JobStorage
    records: CollectionStore
    queue: CollectionQueue
    settings: Settings
    capabilities: Capabilities
    capacity: Capacity
    quotas: Quotas
    check_specs: CheckSpecs

    async def create(self, request: pb.CreateCollectionRequest) -> collection_pb2.Collection:
        """Returns once the collection cannot be lost; a repeated request gets the first one."""
        start = checked(request, self.settings, self.check_specs)
        named = check_word(request.correlation_id, "correlation_id")
        await self.capabilities.check(start.options)
        with prompt(self.settings.accept_seconds):
            return await self._store(request.request_id, named, start)

    async def _store(
        self, request_id: str, named: str, start: event_pb2.StartCollection
    ) -> collection_pb2.Collection:
        reserved = await self.records.reserve(request_id, start.owner)
        about(reserved.id)
        if reserved.accepted:
            return reserved.accepted.collection
        await self.capacity.check()
        wanted: dict[LimitId, float] = {COLLECTIONS: 1, AUDIO_HOURS: 0, STORED_BYTES: 0}
        if start.webhook_url:
            wanted[WEBHOOKS] = 1
        async with self.quotas.admitted(start.owner, reserved.id, wanted):
            return await self._start(reserved, named, start)

    async def _start(
        self, reserved: ReservedCollection, named: str, start: event_pb2.StartCollection
    ) -> collection_pb2.Collection:
        entity = collection_pb2.Collection(
            collection_id=reserved.id,
            correlation_id=named or current() or new_id(),
            owner=start.owner,
        )
        # The item, the event log, the record: a worker that finds an item without a record waits,
        # then drops it; and a record never lacks the addresses, which only the event log has.
        await self.queue.put(reserved.id)
        return await self._create_record(await self._opened(entity, start), reserved.request_key)

    async def _opened(
        self, entity: collection_pb2.Collection, start: event_pb2.StartCollection
    ) -> Projection:
        """Opens the event log; that of an earlier try of the request decides, if there is one."""
        event_log = EventLogWriter(self.storage.bus, entity, 0, patience_seconds=0)
        event = event_pb2.Event(type=BATCH_STARTED, start_collection=start)
        projection = Projection()
        try:
            await event_log.append_event(event)
        except ConflictError:  # an earlier try of this request did
            projection = await read_projection(self.storage.event_logs, entity.collection_id)
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
        COLLECTIONS_ACCEPTED.inc()
        log.info("collection accepted", collection_id=collection_id)
        return created.collection
