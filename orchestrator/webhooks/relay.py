"""The relay: turns the final events of jobs and collections with a webhook_url into webhooks.

An event is acknowledged after its webhook is stored, so none is lost; one that is stored twice has
the same id, which the delivery log knows.
"""

from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from nats.js import api
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import LimitExceededError
from orchestrator.queue.consumers import Consumer
from orchestrator.webhooks.deliveries import Deliveries
from orchestrator.webhooks.queue import KINDS, item_of, put_item
from ytcaption.v1 import event_pb2

log = get_logger(__name__)

DURABLE = "webhooks"
ACK_WAIT_SECONDS = 30.0
FULL_SECONDS = 5.0
AT_ONCE = 8


class Relay(Consumer):
    """Reads final events, enqueues webhooks."""

    def __init__(self, bus: Bus, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        super().__init__(
            bus,
            bus.names.events_stream,
            DURABLE,
            ACK_WAIT_SECONDS,
            filter_subjects=[bus.names.event("*", kind) for kind in KINDS],
            deliver_policy=api.DeliverPolicy.NEW,
            at_once=AT_ONCE,
        )

    async def _handle(self, message: Msg) -> float | None:
        try:
            item = item_of(event_pb2.Event.FromString(message.data))
        except DecodeError:
            log.exception("skip unreadable event", subject=message.subject)
            return None
        if item is not None:
            try:
                await self._deliveries.open(item)
                await put_item(self._bus, item)
            except LimitExceededError as error:
                log.warning("the queue of webhooks is full", error=str(error))
                return FULL_SECONDS
        return None
