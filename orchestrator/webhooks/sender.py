"""Sends webhooks until somebody takes them, or nobody will.

How often was tried is what the delivery log says, not how often the broker handed the item out: an
item that had to wait its turn, or whose sender was killed, was not tried. The order, and what a
kill -9 after each step leaves behind:

1. The request. Repeated by the next sender, under the same webhook-id.
2. The log, by compare-and-set, with what came of it and when the next attempt is due. Whoever gets
   the item before that moment gives it back; if there is no next one, goes on with step 3.
3. The dead letter, if it was given up.
4. The acknowledgement, or the item is given back until the next attempt.
"""

from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from time import monotonic
from urllib.parse import urlsplit

from google.protobuf.duration import from_timedelta
from google.protobuf.message import DecodeError
from google.protobuf.timestamp import from_current_time
from nats.aio.msg import Msg
from nats.js import api
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import Bus, outlast
from mesh.stores import MAX_WAITING
from orchestrator.deadletters import DeadLetters
from orchestrator.figures import WEBHOOK_ATTEMPTS
from orchestrator.settings import Settings
from orchestrator.webhooks.backoff import Backoff, waits
from orchestrator.webhooks.deliveries import Deliveries, Kept
from orchestrator.webhooks.fairness import Hosts
from orchestrator.webhooks.letters import GONE, letter_of
from orchestrator.webhooks.posting import Answer, Poster
from orchestrator.webhooks.pulling import Puller
from orchestrator.webhooks.queue import forget_webhook, is_story_there
from orchestrator.webhooks.signing import Signer, keys
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import webhook_pb2

log = get_logger(__name__)

DURABLE = "sender"
AGAIN_SECONDS = 1.0
EARLY_SECONDS = 0.05
"""The broker's clock is not ours."""
USUAL = {"Content-Type": "application/json", "User-Agent": f"ytcaption/{version('ytcaption')}"}


class Sender:
    """Safe to run in every replica at once: an item is handed to one of them at a time."""

    def __init__(self, bus: Bus, settings: Settings) -> None:
        self._bus = bus
        self._settings = settings
        self._deliveries = Deliveries(bus)
        self._letters = DeadLetters(bus)
        self._backoff = Backoff(waits(settings.webhook_backoff))
        self._keys = keys(settings.webhook_secret.get_secret_value())
        self._signer = Signer(self._keys)
        self._hosts = Hosts(settings.webhook_at_once)
        config = api.ConsumerConfig(
            durable_name=DURABLE,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=settings.webhook_seconds + settings.ack_wait_seconds,
            max_ack_pending=MAX_WAITING,  # those that wait for their next attempt count
        )
        stream = bus.names.webhooks_stream
        self._puller = Puller(bus, stream, config, settings.webhook_at_once)

    async def run(self) -> None:
        """Sends until cancelled; without a secret nothing is sent, and waits for one."""
        if not self._keys:
            return
        async with Poster.opened(
            private=self._settings.webhook_private,
            seconds=self._settings.webhook_seconds,
            at_once=self._settings.webhook_at_once,
        ) as poster:
            await self._puller.run(lambda message: self._deal_with(message, poster))

    async def _deal_with(self, message: Msg, poster: Poster) -> None:
        try:
            item = webhook_pb2.WebhookItem.FromString(message.data)
        except DecodeError:
            log.exception("a webhook nobody can read", subject=message.subject)
            await message.term()
            return
        with bound_contextvars(correlation_id=item.correlation_id, event_id=item.event_id):
            kept = await self._deliveries.of(item)
            wait = _due_in(kept.delivery)
            if _is_over(kept, item):
                await self._conclude(message, item, kept.delivery)
            elif wait > EARLY_SECONDS:
                await message.nak(delay=wait)
            elif not await is_story_there(self._bus, item):
                log.info("what a webhook tells of is gone")
                await forget_webhook(self._bus, item.event_id)
                await message.ack()
            else:
                await self._take_turn(message, poster, item, kept)

    async def _take_turn(
        self, message: Msg, poster: Poster, item: webhook_pb2.WebhookItem, kept: Kept
    ) -> None:
        host = urlsplit(item.url).netloc.lower()
        wait = self._hosts.enter(host)
        if wait:
            await message.nak(delay=wait)
            return
        began = monotonic()
        try:
            if item.attempts and kept.made <= item.attempts:
                await self._take_old_letter(item)
            answer = await self._attempt(poster, item, kept)
        finally:
            self._hosts.leave(host, monotonic() - began)
        patience = self._settings.ack_wait_seconds / 2
        if not await outlast(lambda: self._deliveries.save(kept), patience):
            await message.nak(delay=AGAIN_SECONDS)  # somebody else was at it, or we were twice
            return
        log.info("webhook", attempt=kept.made, status=answer.status, error=answer.error)
        if kept.delivery.state == pb.DELIVERY_STATE_PENDING:
            await message.nak(delay=_due_in(kept.delivery))
        else:
            await self._conclude(message, item, kept.delivery)

    async def _attempt(self, poster: Poster, item: webhook_pb2.WebhookItem, kept: Kept) -> Answer:
        """Sends it once; what came of it is then in `kept`, and not yet stored."""
        start, began = from_current_time(), monotonic()
        headers = USUAL | self._signer.headers(item.event_id, datetime.now(UTC), item.body)
        answer = await poster.post(item.url, headers, item.body)
        kept.delivery.attempts.add(
            number=max(kept.made, item.attempts) + 1,
            start_time=start,
            duration=from_timedelta(timedelta(seconds=monotonic() - began)),
            status=answer.status,
            error=answer.error,
        )
        self._decide(kept, answer, failures=kept.made - item.attempts)
        return answer

    def _decide(self, kept: Kept, answer: Answer, failures: int) -> None:
        delivery = kept.delivery
        delivery.ClearField("next_attempt_time")
        wait = self._backoff.after(failures, answer.retry_after)
        if answer.taken:
            delivery.state = pb.DELIVERY_STATE_DELIVERED
            outcome = "taken"
        elif answer.status == GONE or wait is None:
            delivery.state = pb.DELIVERY_STATE_DEAD
            outcome = "given up"
        else:
            delivery.state = pb.DELIVERY_STATE_PENDING
            delivery.next_attempt_time.FromDatetime(datetime.now(UTC) + timedelta(seconds=wait))
            outcome = "put off"
        WEBHOOK_ATTEMPTS.labels(outcome).inc()

    async def _conclude(
        self, message: Msg, item: webhook_pb2.WebhookItem, delivery: pb.WebhookDelivery
    ) -> None:
        if delivery.state == pb.DELIVERY_STATE_DEAD:
            await self._letters.keep(letter_of(item, delivery))
        await message.ack()

    async def _take_old_letter(self, item: webhook_pb2.WebhookItem) -> None:
        """The letter goes with the replay; whoever replayed may have died before taking it out."""
        letter = await self._letters.of(item.event_id)
        if letter is not None and letter.attempts <= item.attempts:
            await self._letters.remove(letter)


def _is_over(kept: Kept, item: webhook_pb2.WebhookItem) -> bool:
    """Whether this item's attempts are over; those of a life before a replay do not count."""
    dead = kept.delivery.state == pb.DELIVERY_STATE_DEAD and kept.made > item.attempts
    return dead or kept.delivery.state == pb.DELIVERY_STATE_DELIVERED


def _due_in(delivery: pb.WebhookDelivery) -> float:
    if not delivery.HasField("next_attempt_time"):
        return 0.0
    due = delivery.next_attempt_time.ToDatetime(UTC)
    return max(0.0, (due - datetime.now(UTC)).total_seconds())
