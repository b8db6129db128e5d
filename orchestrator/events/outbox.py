"""The outbox: publishes events of the event logs as JSON to the outbox stream.

An event is acknowledged only once it is in the outbox stream. After a crash in between the next
replica publishes it again, and the broker drops the duplicate.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from nats.js import api
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.stores import OWNER_TAG
from orchestrator.events.models import AnyEvent
from orchestrator.events.parsing import MESSAGE_ID
from orchestrator.events.rendering import KINDS, aggregates, rendered
from orchestrator.queue.consumers import Consumer
from ytcaption.v1 import collection_pb2, event_pb2, task_pb2

log = get_logger(__name__)

DURABLE = "herald"
"""A wire name: the consumer of running installations."""
ACK_WAIT_SECONDS = 10.0
AGAIN_SECONDS = 1.0
HEADERS_BYTES = 1024
READERS = ("listener", "bridge")
"""Durable consumers of the outbox stream: of each the broker keeps how far its role has read."""

AGGREGATES = ("collection_gathered", "collection_settled")
"""Events that are published with all members of their collection."""
AGGREGATED = (
    event_pb2.EVENT_TYPE_COLLECTION_GATHERED,
    event_pb2.EVENT_TYPE_COLLECTION_SETTLED,
)


class Parts(Protocol):
    """The parts of a collection."""

    members: list[collection_pb2.Member]
    subtasks: list[task_pb2.Subtask]
    documents: list[task_pb2.Document]


PartsAt: TypeAlias = Callable[[str, int], Awaitable[Parts]]
"""The parts of a collection as they stood at a sequence of the events stream."""


class Outbox(Consumer):
    """Shared by all replicas: one event in flight at a time, so event-log order is kept."""

    def __init__(self, bus: Bus, parts: PartsAt) -> None:
        self._parts = parts
        super().__init__(
            bus,
            bus.names.events_stream,
            DURABLE,
            ACK_WAIT_SECONDS,
            filter_subjects=[bus.names.event("*", kind) for kind in (*KINDS, *AGGREGATES)],
            deliver_policy=api.DeliverPolicy.NEW,
            max_ack_pending=1,
            retry_after=lambda *_: AGAIN_SECONDS,
        )

    async def create(self) -> None:
        """Also the consumers of those who read the outbox stream; they may make none."""
        async with storing():
            for name in READERS:
                await self._bus.jetstream.add_consumer(
                    self._bus.names.outbox_stream,
                    durable_name=name,
                    ack_policy=api.AckPolicy.EXPLICIT,
                )
        await super().create()

    async def _handle(self, message: Msg) -> None:
        """Returns once everything the event becomes is in the outbox stream."""
        try:
            event = event_pb2.Event.FromString(message.data)
        except DecodeError as error:
            self._skip(message, error)
            return
        try:
            events: Sequence[AnyEvent]
            if event.type in AGGREGATED:
                parts = await self._parts(event.collection_id, message.metadata.sequence.stream)
                collection = event.collection_changed.collection
                if len(parts.members) < collection.member_count:
                    log.info("skip aggregate of a removed collection", subject=message.subject)
                    return
                events = list(aggregates(event, parts.members, parts.subtasks))
            else:
                events = [rendered(event)]
        except (ValueError, KeyError) as error:
            # It must not hold up the others.
            self._skip(message, error)
            return
        tag = (message.headers or {}).get(OWNER_TAG, "")
        for one in events:
            await publish_event(self._bus, one, tag)

    def _skip(self, message: Msg, error: Exception) -> None:
        # Without the traceback, which would show all of the event.
        log.error("skip event without JSON form", subject=message.subject, error=str(error)[:500])


async def publish_event(bus: Bus, event: AnyEvent, owner_tag: str = "") -> None:
    """Stores an event in the outbox stream; once, as long as the broker knows its id."""
    data = event.model_dump_json(exclude_none=True).encode()
    subject = bus.names.outgoing(event.tipo_evento)
    if len(data) + HEADERS_BYTES > bus.client.max_payload:
        log.error("skip event that is too large", subject=subject, size=len(data))
        return
    headers = {MESSAGE_ID: event.evento_id}
    if owner_tag:
        headers[OWNER_TAG] = owner_tag
    await bus.publish(subject, data, headers)
