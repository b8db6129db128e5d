"""The delivery log: the attempts of each webhook, when the next one is due, and dead letters.

Every change is a message with the whole entry, and only the newest is stored. It is written by
compare-and-set, so it also distinguishes an attempt from its repetition after a crash.
"""

from dataclasses import dataclass, field

from google.protobuf.timestamp import from_current_time

from mesh.bus import Bus
from mesh.errors import NotFoundError
from mesh.identity import current
from mesh.reasons import Reason
from orchestrator.jobs.dead_letters import DeadLetters
from orchestrator.queue.paging import Page, stream_page
from orchestrator.webhooks.posting import reason_of
from orchestrator.webhooks.queue import has_event_log, put_again
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2, webhook_pb2

MAX_ATTEMPTS_KEPT = 100


@dataclass(slots=True)
class VersionedDelivery:
    """The log entry of one webhook and its sequence."""

    delivery: pb.WebhookDelivery = field(default_factory=pb.WebhookDelivery)
    sequence: int = 0
    """0 if there is no entry yet."""

    @property
    def made(self) -> int:
        """Attempts made so far, those before a replay included."""
        attempts = self.delivery.attempts
        return attempts[-1].number if attempts else 0


class Deliveries:
    """Reads and writes the log."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stream = bus.names.deliveries_stream

    async def of(self, item: webhook_pb2.WebhookItem) -> VersionedDelivery:
        """The entry of this webhook; a new one if there is none."""
        found = await self._bus.newest(self._stream, self._bus.names.delivery(item.event_id))
        if found is None:
            return VersionedDelivery(_opened(item))
        return VersionedDelivery(pb.WebhookDelivery.FromString(found.data), found.sequence)

    async def open(self, item: webhook_pb2.WebhookItem) -> None:
        """Creates the entry of a new webhook, unless there is one."""
        await self.save(VersionedDelivery(_opened(item)))

    async def save(self, versioned: VersionedDelivery) -> bool:
        """Stores the entry; False if another replica changed it meanwhile."""
        del versioned.delivery.attempts[:-MAX_ATTEMPTS_KEPT]
        sequence = await self._bus.publish_fenced(
            self._stream,
            self._bus.names.delivery(versioned.delivery.event_id),
            versioned.delivery.SerializeToString(),
            versioned.sequence,
        )
        if sequence is not None:
            versioned.sequence = sequence
        return sequence is not None

    async def page(
        self, size: int, token: str, job_id: str, collection_id: str
    ) -> Page[pb.WebhookDelivery]:
        """Deliveries the caller sees that changed before the token's, last changed first."""
        caller = current()

        def wanted(delivery: pb.WebhookDelivery) -> bool:
            return (
                caller.sees(delivery.owner, delivery.group)
                and (not job_id or delivery.job_id == job_id)
                and (not collection_id or delivery.collection_id == collection_id)
            )

        return await stream_page(
            self._bus,
            self._stream,
            self._bus.names.delivery("*"),
            size=size,
            token=token,
            read=lambda stored: pb.WebhookDelivery.FromString(stored.data),
            wanted=wanted,
        )


def _opened(item: webhook_pb2.WebhookItem) -> pb.WebhookDelivery:
    return pb.WebhookDelivery(
        event_id=item.event_id,
        type=item.type,
        url=item.url,
        job_id=item.job_id,
        collection_id=item.collection_id,
        state=pb.DELIVERY_STATE_PENDING,
        create_time=item.create_time,
        owner=item.owner,
        group=item.group,
    )


def dead_letter_of(
    item: webhook_pb2.WebhookItem, delivery: pb.WebhookDelivery
) -> job_pb2.DeadLetter:
    """The dead letter of a webhook that was given up, derived from the delivery log alone."""
    last = delivery.attempts[-1]
    return job_pb2.DeadLetter(
        kind=job_pb2.LETTER_KIND_WEBHOOK,
        letter_id=item.event_id,
        job_id=item.job_id,
        collection_id=item.collection_id,
        correlation_id=item.correlation_id,
        failure=job_pb2.Failure(
            reason=reason_of(last.status, given_up=True),
            message=f"the webhook to {item.url} was given up: {last.error}",
            attempt=last.number,
        ),
        attempts=last.number,
        first_attempt_time=delivery.attempts[0].start_time,
        dead_time=from_current_time(),
        content=item.SerializeToString(),
        owner=item.owner,
        group=item.group,
    )


async def resend_webhook(
    bus: Bus, deliveries: Deliveries, dead_letters: DeadLetters, letter: job_pb2.DeadLetter
) -> None:
    """Sends it again with all its attempts; NotFoundError if there is nothing left to send.

    The item is stored first: from then on it is sent, even if this process dies. Unlike the dead
    item it holds the number of attempts that no longer count. The caller removes the letter last;
    the sender removes one that outlives its replay.
    """
    item = webhook_pb2.WebhookItem.FromString(letter.content)
    item.attempts = letter.attempts
    versioned = await deliveries.of(item)
    if _replayed_already(versioned, letter) or not await has_event_log(bus, item):
        await dead_letters.remove(letter)
        raise NotFoundError(
            f"webhook {item.event_id} is no longer dead, or its job or collection was deleted",
            reason=Reason.DEAD_LETTER_NOT_FOUND,
        )
    await put_again(bus, item)
    versioned.delivery.state = pb.DELIVERY_STATE_PENDING
    versioned.delivery.ClearField("next_attempt_time")
    await deliveries.save(versioned)  # unless the sender was faster


def _replayed_already(versioned: VersionedDelivery, letter: job_pb2.DeadLetter) -> bool:
    return versioned.made > letter.attempts or (
        bool(versioned.sequence) and versioned.delivery.state == pb.DELIVERY_STATE_DELIVERED
    )
