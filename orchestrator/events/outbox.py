"""The outbox: publishes events of the event logs as JSON to the outbox stream.

An event is acknowledged only once it is in the outbox stream. After a crash in between the next
replica publishes it again, and the broker drops the duplicate.
"""

from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from nats.js import api
from structlog import get_logger

from mesh.bus import Bus, storing
from orchestrator.events.parsing import MESSAGE_ID
from orchestrator.events.rendering import KINDS, rendered
from orchestrator.queue.consumers import Consumer
from ytcaption.v1 import event_pb2

log = get_logger(__name__)

DURABLE = "herald"
"""A wire name: the consumer of running installations."""
ACK_WAIT_SECONDS = 10.0
AGAIN_SECONDS = 1.0
HEADERS_BYTES = 1024
READERS = ("listener", "bridge")
"""Durable consumers of the outbox stream: of each the broker keeps how far its role has read."""


class Outbox(Consumer):
    """Shared by all replicas: one event in flight at a time, so event-log order is kept."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(
            bus,
            bus.names.events_stream,
            DURABLE,
            ACK_WAIT_SECONDS,
            filter_subjects=[bus.names.event("*", kind) for kind in KINDS],
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
        if event := self._rendered(message):
            kind, event_id, data = event
            headers = {MESSAGE_ID: event_id}
            await self._bus.publish(self._bus.names.outgoing(kind), data, headers)

    def _rendered(self, message: Msg) -> tuple[str, str, bytes] | None:
        """The event's kind, id and JSON; None if it has none, which must not hold up the others."""
        try:
            event = rendered(event_pb2.Event.FromString(message.data))
            data = event.model_dump_json(exclude_none=True).encode()
        except (DecodeError, ValueError, KeyError) as error:
            # Without the traceback, which would show all of the event.
            log.error(  # noqa: TRY400
                "skip event without JSON form", subject=message.subject, error=str(error)[:500]
            )
            return None
        if len(data) + HEADERS_BYTES > self._bus.client.max_payload:
            log.error("skip event that is too large", subject=message.subject, size=len(data))
            return None
        return event.tipo_evento, event.evento_id, data
