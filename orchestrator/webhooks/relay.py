"""From the story to the queue: every end somebody wants to hear of becomes a webhook.

The event is acknowledged after its webhook is stored, so none is lost; whatever is put in twice
has the same id, and the delivery log knows it.
"""

from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from nats.js import api
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import LimitExceededError
from orchestrator.webhooks.deliveries import Deliveries
from orchestrator.webhooks.items import KINDS, item_of
from orchestrator.webhooks.pulling import Puller
from orchestrator.webhooks.queue import put_item
from ytcaption.v1 import event_pb2, webhook_pb2

log = get_logger(__name__)

DURABLE = "webhooks"
ACK_WAIT_SECONDS = 30.0
FULL_SECONDS = 5.0
AT_ONCE = 8


class Relay:
    """Reads ends, puts webhooks."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._deliveries = Deliveries(bus)
        config = api.ConsumerConfig(
            durable_name=DURABLE,
            filter_subjects=[bus.names.event("*", kind) for kind in KINDS],
            deliver_policy=api.DeliverPolicy.NEW,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_SECONDS,
        )
        self._puller = Puller(bus, bus.names.events_stream, config, AT_ONCE)

    async def prepare(self) -> None:
        """From here on no end is missed."""
        await self._puller.make()

    async def run(self) -> None:
        """Relays until cancelled."""
        await self._puller.run(self._relay)

    async def _relay(self, message: Msg) -> None:
        try:
            item = item_of(event_pb2.Event.FromString(message.data))
        except DecodeError:
            log.exception("an event nobody can read", subject=message.subject)
            item = None
        if item is not None:
            try:
                await self._put(item)
            except LimitExceededError as error:
                log.warning("the queue of webhooks is full", error=str(error))
                await message.nak(delay=FULL_SECONDS)
                return
        await message.ack()

    async def _put(self, item: webhook_pb2.WebhookItem) -> None:
        await self._deliveries.open(item)
        await put_item(self._bus, item)
