"""Pull consumers: the one loop that takes items from JetStream and settles each delivery.

Collections, webhooks and events use `Consumer`; jobs use the dispatcher's lanes on the same
`Puller` and settle with the same `handle_delivery`.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import api
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import MeshError, UnavailableError
from mesh.reasons import Reason
from mesh.tasks import side_by_side, stop
from orchestrator.worker.retry import Backoff

log = get_logger(__name__)

WAIT_SECONDS = 2.0
"""A pull request waits this long at the broker for an item."""
ANSWER_SECONDS = 2.0
AWAY_SECONDS = 0.25
FAULT_SECONDS = 30.0
GIVE_BACK_SECONDS = 1.0
RECORD_BACKOFF = Backoff(first=0.1, limit=2)
RECORD_SECONDS = 30.0
"""An item is stored before its record: one whose record does not follow is dropped after this."""
NO_ITEM = ("404", "408")

RetryAfter = Callable[[Msg, Exception], float | None]
"""Seconds until an item is delivered again after an error; None: when its ack wait is over."""


class Puller:
    """Pulls one item at a time from the consumers of a stream.

    One, because larger batches stalled for seconds (nats.py #986). A delivery that comes too late,
    after its request was cancelled or timed out, is given back.
    """

    def __init__(self, bus: Bus, stream: str) -> None:
        self._bus = bus
        self._stream = stream
        self._inbox = bus.client.new_inbox()
        self._requests = 0
        self._consumer = ""
        self._answer: asyncio.Future[Msg] | None = None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Pulls work inside this block."""
        async with storing():
            answers = await self._bus.client.subscribe(f"{self._inbox}.*", cb=self._receive)
        try:
            yield
        finally:
            if self._bus.client.is_connected:
                # Not unsubscribe: an item on its way to us would wait for the end of its ack wait.
                with suppress(NatsError, TimeoutError):
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await answers.drain()  # type: ignore[no-untyped-call]

    async def pull(self, consumer: str, wait_seconds: float = 0) -> Msg | None:
        """The consumer's next item, or None if there is none within that time."""
        self._requests += 1
        self._consumer, self._answer = consumer, asyncio.get_running_loop().create_future()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer}"
        request = {"batch": 1, "expires": int(wait_seconds * 1e9), "no_wait": not wait_seconds}
        try:
            async with storing():
                await self._bus.client.publish(
                    subject, json.dumps(request).encode(), reply=self._reply
                )
                async with asyncio.timeout(wait_seconds + ANSWER_SECONDS):
                    answer = await self._answer
        finally:
            self._answer = None
        status = _status(answer)
        if status and status not in NO_ITEM:
            # Such as 503: the consumer is missing, or the broker has not recovered it yet.
            raise UnavailableError(
                f"consumer {consumer}: status {status}", reason=Reason.STORAGE_UNAVAILABLE
            )
        return None if status else answer

    @property
    def _reply(self) -> str:
        return f"{self._inbox}.{self._requests}"

    async def _receive(self, message: Msg) -> None:
        status = _status(message)
        # An item comes under its own subject, a status under that of the request.
        requested = (
            message.subject == self._reply
            if status
            else message.metadata.consumer == self._consumer
        )
        if requested and self._answer is not None and not self._answer.done():
            self._answer.set_result(message)
        elif not status:
            with suppress(NatsError):
                await message.nak()


def _status(message: Msg) -> str:
    """The status of an answer without an item; "" for an item."""
    return "" if message.reply else (message.headers or {}).get("Status", "?")


def retry_faults(_: Msg, error: Exception) -> float | None:
    """Retries after a fault of ours; an item the broker could not settle comes back by itself."""
    return None if isinstance(error, MeshError | NatsError) else FAULT_SECONDS


class Consumer(ABC):
    """A durable consumer that all replicas share: an item is delivered to one of them at a time."""

    def __init__(  # noqa: PLR0913 # how deliveries are handled
        self,
        bus: Bus,
        stream: str,
        durable: str,
        ack_wait_seconds: float,
        *,
        at_once: int = 1,
        retry_after: RetryAfter = retry_faults,
        lost: tuple[type[Exception], ...] = (),
        heartbeat: bool = False,
        **config: Any,
    ) -> None:
        """`config` are more fields of the consumer's configuration."""
        self._bus = bus
        self._stream = stream
        self._config = api.ConsumerConfig(
            durable_name=durable,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ack_wait_seconds,
            **config,
        )
        self._free = asyncio.Semaphore(at_once)
        self._retry_after = retry_after
        self._lost = lost
        self._ack_wait = ack_wait_seconds if heartbeat else None
        self._puller = Puller(bus, stream)
        self._created = False

    async def create(self) -> None:
        """Creates the consumer if it is missing or configured otherwise; every replica may.

        From here on no message is missed: called before the first one that must not be.
        """
        async with storing():
            await self._bus.jetstream.add_consumer(self._stream, self._config)
        self._created = True

    @property
    def name(self) -> str:
        """The name of the durable consumer."""
        return str(self._config.durable_name)

    async def lag(self) -> int:
        """Messages it has not finished: they wait, or are being handled."""
        async with storing():
            info = await self._bus.jetstream.consumer_info(self._stream, self.name)
        return (info.num_pending or 0) + (info.num_ack_pending or 0)

    @abstractmethod
    async def _handle(self, message: Msg) -> float | None:
        """Works on one delivery; see handle_delivery."""

    async def run(self) -> None:
        """Handles deliveries until cancelled; those under way are then given back."""

        async def handle(message: Msg) -> None:
            try:
                await handle_delivery(
                    message,
                    partial(self._handle, message),
                    retry_after=self._retry_after,
                    lost=self._lost,
                    ack_wait_seconds=self._ack_wait,
                )
            finally:
                self._free.release()

        async with self._puller.listening():
            await side_by_side(self._next, handle)

    async def _next(self) -> Msg:
        """The next item; outlasts a broker that is away and a consumer that was deleted."""
        await self._free.acquire()  # first: pulls nothing it cannot handle yet
        while True:
            try:
                if not self._created:
                    await self.create()
                message = await self._puller.pull(self.name, WAIT_SECONDS)
            except (MeshError, NatsError) as error:
                log.warning("cannot pull", stream=self._stream, error=str(error))
                self._created = False
                await asyncio.sleep(AWAY_SECONDS)
                continue
            if message is not None:
                return message


async def handle_delivery(
    message: Msg,
    work: Callable[[], Awaitable[float | None]],
    *,
    retry_after: RetryAfter,
    lost: tuple[type[Exception], ...] = (),
    ack_wait_seconds: float | None = None,
) -> float | None:
    """Works on one delivery and settles it; returns in how many seconds it comes back, if known.

    `work` returns None if nothing is left to do, else the seconds until the next delivery. A
    cancelled delivery is given back at once. No error escapes: one of `lost` leaves the item to
    the replica that has it now. With `ack_wait_seconds` a heartbeat keeps the delivery ours.
    """
    try:
        async with keep_alive(message, ack_wait_seconds):
            wait = await work()
        if wait is None:
            await message.ack_sync()
    except lost:
        log.warning("another orchestrator has the item", subject=message.subject)
        return None
    except asyncio.CancelledError:
        await give_back(message)
        raise
    except Exception as error:  # not acknowledged, so it is delivered again
        expected = isinstance(error, MeshError | NatsError)
        log.warning(
            "the item will be delivered again",
            subject=message.subject,
            error=str(error) or type(error).__name__,
            exc_info=not expected,
        )
        wait = retry_after(message, error)
    if wait is not None:
        with suppress(NatsError):  # then it comes back when its ack wait is over
            await message.nak(delay=wait)
    return wait


async def give_back(message: Msg) -> None:
    """Lets another replica have the item, soon; then the caller ends as cancelled.

    Cancelling the caller again, as `mesh.tasks.stop` does, cuts this short only after a second.
    """
    giving, clock = asyncio.create_task(_nak(message)), asyncio.get_running_loop().time
    end = clock() + GIVE_BACK_SECONDS
    while not giving.done() and clock() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([giving], timeout=end - clock())
    giving.cancel()


async def _nak(message: Msg) -> None:
    try:
        await message.nak(delay=0.1)
    except Exception as error:  # noqa: BLE001 # we are stopping; the broker redelivers by itself
        log.warning("could not give work back", error=str(error))


@asynccontextmanager
async def keep_alive(message: Msg, ack_wait_seconds: float | None) -> AsyncIterator[None]:
    """Heartbeat: extends the item's ack wait until the block ends."""
    if ack_wait_seconds is None:
        yield
        return
    beating = asyncio.create_task(_beat(message, ack_wait_seconds / 3))
    try:
        yield
    finally:
        await stop(beating)


async def _beat(message: Msg, every_seconds: float) -> None:
    while True:
        await asyncio.sleep(every_seconds)
        try:
            await message.in_progress()
        except NatsError as error:  # the broker restarts; the next beat may get through
            log.warning("heartbeat lost", error=str(error) or type(error).__name__)


def wait_for_record(enqueued: datetime, deliveries: int) -> float | None:
    """Seconds until the record of an item is looked for again; None: its submission died."""
    age = (datetime.now(UTC) - enqueued).total_seconds()
    if age < RECORD_SECONDS:
        return RECORD_BACKOFF.delay(deliveries)
    log.warning("an item that was never accepted is dropped")
    return None
