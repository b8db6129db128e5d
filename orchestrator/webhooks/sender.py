"""The sender: posts webhooks until the receiver accepts them or the attempts are used up.

The delivery log counts attempts, not the broker's deliveries: an item that had to wait its turn, or
whose sender was killed, was not attempted. The steps, and what a kill -9 after each leaves behind:

1. The request. Repeated by the next sender, under the same webhook-id.
2. The log, by compare-and-set, with the outcome and when the next attempt is due. A sender that
   gets the item before that time gives it back; if no attempt is left, it goes on with step 3.
3. The dead letter, if the webhook was given up.
4. The acknowledgement, or the item is given back until the next attempt.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from time import monotonic
from urllib.parse import urlsplit

from google.protobuf.duration import from_timedelta
from google.protobuf.message import DecodeError
from google.protobuf.timestamp import from_current_time
from nats.aio.msg import Msg
from standardwebhooks.webhooks import Webhook
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import Bus, outlast
from mesh.errors import MeshError
from mesh.reasons import Reason
from mesh.stores import MAX_WAITING, is_filler
from orchestrator.jobs.dead_letters import DeadLetters
from orchestrator.metrics import RETRIES, WEBHOOK_ATTEMPTS
from orchestrator.queue.consumers import Consumer
from orchestrator.settings import Settings, webhook_keys
from orchestrator.webhooks.deliveries import Deliveries, VersionedDelivery, dead_letter_of
from orchestrator.webhooks.fairness import Kind, Shares, network_of
from orchestrator.webhooks.posting import Answer, Destination, Poster
from orchestrator.webhooks.queue import forget_webhook, has_event_log
from orchestrator.worker.retry import Schedule
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import webhook_pb2

log = get_logger(__name__)

DURABLE = "sender"
AGAIN_SECONDS = 1.0
EARLY_SECONDS = 0.05
"""Tolerance between the broker's clock and ours."""
HEADERS = {"Content-Type": "application/json", "User-Agent": f"ytcaption/{version('ytcaption')}"}


class Signer:
    """Standard Webhooks signatures, one for each key, so that receivers can change keys."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._webhooks = [Webhook(secret) for secret in secrets]

    def headers(self, event_id: str, moment: datetime, body: bytes) -> dict[str, str]:
        """The three headers of one attempt; `moment` is in UTC."""
        text = body.decode()
        signatures = [webhook.sign(event_id, moment, text) for webhook in self._webhooks]
        return {
            "webhook-id": event_id,
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": " ".join(signatures),
        }


class Sender(Consumer):
    """Safe to run in every replica at once: an item is delivered to one of them at a time."""

    def __init__(
        self, bus: Bus, settings: Settings, deliveries: Deliveries, dead_letters: DeadLetters
    ) -> None:
        self._settings = settings
        self._deliveries = deliveries
        self._dead_letters = dead_letters
        self._schedule = Schedule.parse(settings.webhook_backoff)
        self._keys = webhook_keys(settings.webhook_secret.get_secret_value())
        self._signer = Signer(self._keys)
        self._shares = Shares(settings.webhook_at_once)
        super().__init__(
            bus,
            bus.names.webhooks_stream,
            DURABLE,
            settings.webhook_seconds + settings.ack_wait_seconds,
            max_ack_pending=MAX_WAITING,  # items that wait for their next attempt count
            at_once=settings.webhook_at_once,
        )

    async def run(self) -> None:
        """Sends until cancelled; without a secret nothing is sent, and items stay in the queue."""
        if not self._keys:
            return
        async with Poster.opened(
            private=self._settings.webhook_private,
            seconds=self._settings.webhook_seconds,
            at_once=self._settings.webhook_at_once,
        ) as self._poster:
            await super().run()

    async def _handle(self, message: Msg) -> float | None:
        """Seconds until the webhook is due, or None if it needs no more attempts."""
        if is_filler(message.subject):
            return None
        try:
            item = webhook_pb2.WebhookItem.FromString(message.data)
        except DecodeError:
            log.exception("drop unreadable webhook", subject=message.subject)
            return None
        with bound_contextvars(correlation_id=item.correlation_id, event_id=item.event_id):
            versioned = await self._deliveries.of(item)
            wait = _due_in(versioned.delivery)
            if _is_over(versioned, item):
                await self._conclude(item, versioned.delivery)
                return None
            if wait > EARLY_SECONDS:
                return wait
            if not await has_event_log(self._bus, item):
                log.info("drop the webhook of a deleted job or collection")
                await forget_webhook(self._bus, item.event_id)
                return None
            return await self._take_turn(item, versioned)

    async def _take_turn(
        self, item: webhook_pb2.WebhookItem, versioned: VersionedDelivery
    ) -> float | None:
        turn, took = self._shares.turn(), 0.0
        try:
            host = urlsplit(item.url).netloc.lower()
            if wait := turn.enter(Kind.HOST, host) or turn.enter(Kind.OWNER, item.owner):
                return wait
            began = monotonic()
            # Only now: a lookup takes a slot too, and may be as slow as its owner likes.
            destination = await self._poster.resolve(item.url)
            if wait := turn.enter(Kind.NETWORK, network_of(destination.first)):
                return wait
            if item.attempts and versioned.made <= item.attempts:
                await self._remove_replayed_letter(item)
            answer = await self._attempt(item, versioned, destination)
            took = monotonic() - began
        finally:
            turn.leave(took)
        patience = self._settings.ack_wait_seconds / 2
        if not await outlast(lambda: self._deliveries.save(versioned), patience):
            return AGAIN_SECONDS  # another sender attempted it too, or we did twice
        log.info("webhook", attempt=versioned.made, status=answer.status, error=answer.error)
        if versioned.delivery.state == pb.DELIVERY_STATE_PENDING:
            return _due_in(versioned.delivery)
        await self._conclude(item, versioned.delivery)
        return None

    async def _attempt(
        self,
        item: webhook_pb2.WebhookItem,
        versioned: VersionedDelivery,
        destination: Destination,
    ) -> Answer:
        """Posts it once and notes the outcome in `versioned`, which is not stored yet."""
        start, began = from_current_time(), monotonic()
        headers = HEADERS | self._signer.headers(item.event_id, datetime.now(UTC), item.body)
        answer = await self._poster.post(item.url, headers, item.body, destination)
        versioned.delivery.attempts.add(
            number=max(versioned.made, item.attempts) + 1,
            start_time=start,
            duration=from_timedelta(timedelta(seconds=monotonic() - began)),
            status=answer.status,
            error=answer.error,
        )
        self._decide(versioned.delivery, answer, failures=versioned.made - item.attempts)
        return answer

    def _decide(self, delivery: pb.WebhookDelivery, answer: Answer, failures: int) -> None:
        delivery.ClearField("next_attempt_time")
        if answer.taken:
            delivery.state = pb.DELIVERY_STATE_DELIVERED
            outcome = "taken"
        elif (wait := self._wait(answer.failure, failures)) is None:
            delivery.state = pb.DELIVERY_STATE_DEAD
            outcome = "given up"
        else:
            delivery.state = pb.DELIVERY_STATE_PENDING
            delivery.next_attempt_time.FromDatetime(datetime.now(UTC) + timedelta(seconds=wait))
            outcome = "put off"
            RETRIES.labels("webhook", answer.failure.reason).inc()
        WEBHOOK_ATTEMPTS.labels(outcome).inc()

    def _wait(self, failure: MeshError, failures: int) -> float | None:
        """Seconds until the next attempt; None if the webhook is given up."""
        refused = failure.reason is Reason.WEBHOOK_REFUSED
        return None if refused else self._schedule.delay(failures, failure)

    async def _conclude(self, item: webhook_pb2.WebhookItem, delivery: pb.WebhookDelivery) -> None:
        if delivery.state == pb.DELIVERY_STATE_DEAD:
            await self._dead_letters.add(dead_letter_of(item, delivery))

    async def _remove_replayed_letter(self, item: webhook_pb2.WebhookItem) -> None:
        """Removes the dead letter if the replay died before it could."""
        letter = await self._dead_letters.of(item.event_id)
        if letter is not None and letter.attempts <= item.attempts:
            await self._dead_letters.remove(letter)


def _is_over(versioned: VersionedDelivery, item: webhook_pb2.WebhookItem) -> bool:
    """Whether this item's attempts are over; attempts before a replay do not count."""
    dead = versioned.delivery.state == pb.DELIVERY_STATE_DEAD and versioned.made > item.attempts
    return dead or versioned.delivery.state == pb.DELIVERY_STATE_DELIVERED


def _due_in(delivery: pb.WebhookDelivery) -> float:
    if not delivery.HasField("next_attempt_time"):
        return 0.0
    due = delivery.next_attempt_time.ToDatetime(UTC)
    return max(0.0, (due - datetime.now(UTC)).total_seconds())
