"""Dead letters of webhooks: how one is written, and how it is replayed."""

from google.protobuf.timestamp import from_current_time

from mesh.bus import Bus
from mesh.errors import NotFoundError
from mesh.reasons import Reason
from orchestrator.jobs.dead_letters import DeadLetters
from orchestrator.webhooks.deliveries import Deliveries, VersionedDelivery
from orchestrator.webhooks.queue import has_event_log, put_again
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2, webhook_pb2

GONE = 410


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
            reason=Reason.WEBHOOK_REFUSED if last.status == GONE else Reason.WEBHOOK_UNDELIVERED,
            message=f"the webhook to {item.url} was given up: {last.error}",
            attempt=last.number,
        ),
        attempts=last.number,
        first_attempt_time=delivery.attempts[0].start_time,
        dead_time=from_current_time(),
        content=item.SerializeToString(),
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
