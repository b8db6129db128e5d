"""The delivery log: of each webhook, everything that was tried and what comes next.

Every change is a message with the whole of it, and only the newest is kept. It is written by
compare-and-set, so it is also what tells an attempt from its repetition after a crash.
"""

from dataclasses import dataclass, field

from nats.js.errors import APIError, NotFoundError

from mesh.bus import WRONG_LAST_SEQUENCE, Bus, storing
from orchestrator.paging import newest_first, page_size, sequence_of
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import webhook_pb2

MAX_ATTEMPTS_KEPT = 100


@dataclass(slots=True)
class Kept:
    """What the log says of one webhook."""

    delivery: pb.WebhookDelivery = field(default_factory=pb.WebhookDelivery)
    sequence: int = 0
    """0 if it says nothing yet."""

    @property
    def made(self) -> int:
        """Attempts made so far, whatever became of the webhook between them."""
        attempts = self.delivery.attempts
        return attempts[-1].number if attempts else 0


@dataclass(frozen=True, slots=True)
class Page:
    """Some deliveries, those changed last first, and where the next ones begin."""

    deliveries: list[pb.WebhookDelivery]
    next_token: str


class Deliveries:
    """Reads and writes the log."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stream = bus.names.deliveries_stream

    async def of(self, item: webhook_pb2.WebhookItem) -> Kept:
        """What is known of this webhook; nothing yet is an answer too."""
        async with storing():
            try:
                # Not from any replica of the stream: it must be the very last word.
                found = await self._bus.jetstream.get_last_msg(
                    self._stream, self._bus.names.delivery(item.event_id)
                )
            except NotFoundError:
                return Kept(_opened(item))
        return Kept(pb.WebhookDelivery.FromString(found.data or b""), found.seq or 0)

    async def open(self, item: webhook_pb2.WebhookItem) -> None:
        """Says that the webhook will be sent, unless something was said of it before."""
        await self.save(Kept(_opened(item)))

    async def save(self, kept: Kept) -> bool:
        """Stores it, unless somebody else changed it meanwhile."""
        del kept.delivery.attempts[:-MAX_ATTEMPTS_KEPT]
        fence = {"Nats-Expected-Last-Subject-Sequence": str(kept.sequence)}
        subject = self._bus.names.delivery(kept.delivery.event_id)
        try:
            kept.sequence = await self._bus.publish(
                subject, kept.delivery.SerializeToString(), fence
            )
        except APIError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
            return False
        return True

    async def page(self, size: int, token: str, job_id: str, collection_id: str) -> Page:
        """Deliveries that changed before the token's, those changed last first."""
        size = page_size(size)

        def wanted(delivery: pb.WebhookDelivery) -> bool:
            return (not job_id or delivery.job_id == job_id) and (
                not collection_id or delivery.collection_id == collection_id
            )

        found: list[tuple[int, pb.WebhookDelivery]] = []
        everyone = self._bus.names.delivery("*")
        async for batch in newest_first(
            self._bus,
            self._stream,
            everyone,
            before=sequence_of(token),
            size=size + 1,
            read=lambda stored: pb.WebhookDelivery.FromString(stored.data),
            wanted=wanted,
        ):
            found += batch
            if len(found) > size:
                last = found[size - 1][0]
                return Page([delivery for _, delivery in found[:size]], str(last))
        return Page([delivery for _, delivery in found], "")


def _opened(item: webhook_pb2.WebhookItem) -> pb.WebhookDelivery:
    return pb.WebhookDelivery(
        event_id=item.event_id,
        type=item.type,
        url=item.url,
        job_id=item.job_id,
        collection_id=item.collection_id,
        state=pb.DELIVERY_STATE_PENDING,
        create_time=item.create_time,
    )
