"""Dead letters of webhooks: how one is written, and how it is given another chance."""

from google.protobuf.timestamp import from_current_time

from mesh.bus import Bus
from mesh.errors import NotFoundError
from mesh.reasons import Reason
from orchestrator.deadletters import DeadLetters
from orchestrator.webhooks.deliveries import Deliveries, Kept
from orchestrator.webhooks.queue import is_story_there, put_again
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2, webhook_pb2

GONE = 410


def letter_of(item: webhook_pb2.WebhookItem, delivery: pb.WebhookDelivery) -> job_pb2.DeadLetter:
    """The letter of a webhook that was given up; made of what the log says, by whoever reads it."""
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


class WebhookReplays:
    """Puts webhooks back that were given up.

    The item first: from then on it is sent, whatever happens to us. It says how many attempts are
    forgiven, which tells it from the item of the death. The letter goes last, by whoever asks; one
    that outlives its replay is taken out by the sender.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._deliveries = Deliveries(bus)
        self._letters = DeadLetters(bus)

    async def resend(self, letter: job_pb2.DeadLetter) -> None:
        """Sends it again with all its attempts; NotFoundError if there is nothing left to send."""
        item = webhook_pb2.WebhookItem.FromString(letter.content)
        item.attempts = letter.attempts
        kept = await self._deliveries.of(item)
        if _replayed_already(kept, letter) or not await is_story_there(self._bus, item):
            await self._letters.remove(letter)
            raise NotFoundError(
                f"webhook {item.event_id} is no longer dead, or what it tells of is gone",
                reason=Reason.DEAD_LETTER_NOT_FOUND,
            )
        await put_again(self._bus, item)
        kept.delivery.state = pb.DELIVERY_STATE_PENDING
        kept.delivery.ClearField("next_attempt_time")
        await self._deliveries.save(kept)  # unless its sender was faster


def _replayed_already(kept: Kept, letter: job_pb2.DeadLetter) -> bool:
    return kept.made > letter.attempts or (
        bool(kept.sequence) and kept.delivery.state == pb.DELIVERY_STATE_DELIVERED
    )
