"""One item for each collection that is kept going, held by one orchestrator at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import api
from nats.js.errors import NotFoundError
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import LimitExceededError, MeshError
from orchestrator.pulling import NoLaneError, Puller
from orchestrator.queue import is_there_already

log = get_logger(__name__)

CONSUMER = "conductors"
LOOK_SECONDS = 1.0
"""Items that come back from others are not announced: so often the broker is asked."""
FIRST_PAUSE = 0.005
"""An item is announced before it is stored: after this the broker is asked again."""
AWAY_SECONDS = 0.25


class CollectionQueue:
    """Puts items in and takes them out."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def put(self, collection_id: str) -> None:
        """Stores the collection's item durably, unless it has one."""
        try:
            await self._bus.publish(self._bus.names.collection(collection_id), b"")
        except LimitExceededError as error:
            if not is_there_already(error):
                raise

    async def withdraw(self, collection_id: str) -> None:
        """Takes the collection's item out, if there is one."""
        async with storing():
            with suppress(NotFoundError):
                await self._bus.jetstream.purge_stream(
                    self._bus.names.collections_stream,
                    subject=self._bus.names.collection(collection_id),
                )

    async def ids(self) -> set[str]:
        """Collections that have an item."""
        names = self._bus.names
        items = self._bus.read(names.collections_stream, names.collection("*"))
        return {collection_of_subject(item.subject) async for item in items}

    async def make_consumer(self, ack_wait_seconds: float) -> None:
        """Makes it if it is missing or set up otherwise; every replica may, at any time."""
        config = api.ConsumerConfig(
            durable_name=CONSUMER,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ack_wait_seconds,
            max_deliver=-1,
            max_ack_pending=10_000,
        )
        async with storing():
            await self._bus.jetstream.add_consumer(self._bus.names.collections_stream, config)


def collection_of_subject(subject: str) -> str:
    """Whose item it is."""
    return subject.rpartition(".")[2]


class Items:
    """Items of collections, one after another, as this orchestrator can take them."""

    def __init__(self, bus: Bus, queue: CollectionQueue, ack_wait_seconds: float) -> None:
        self._bus = bus
        self._queue = queue
        self._ack_wait = ack_wait_seconds
        self._puller = Puller(bus, bus.names.collections_stream)
        self._news = asyncio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        """Hears of new items inside this block."""

        async def on_item(_: Msg) -> None:
            self._news.set()

        async with self._puller.listening():
            async with storing():
                subject = self._bus.names.collection("*")
                items = await self._bus.client.subscribe(subject, cb=on_item)
            try:
                yield self
            finally:
                if not self._bus.client.is_closed:
                    await items.unsubscribe()

    async def next(self) -> Msg:
        """The next item; waits until there is one."""
        pause = LOOK_SECONDS
        while True:
            try:
                message = await self._puller.ask(CONSUMER)
            except NoLaneError:
                await self._make_consumer()
                continue
            except (MeshError, NatsError) as error:
                log.warning("cannot take collections up", error=str(error))
                await asyncio.sleep(AWAY_SECONDS)
                continue
            if message is not None:
                return message
            pause = FIRST_PAUSE if await self._announced(pause) else min(LOOK_SECONDS, 2 * pause)

    def expect(self, seconds: float) -> None:
        """An item of ours comes back then, which nobody announces."""
        asyncio.get_running_loop().call_later(seconds, self._news.set)

    async def _announced(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        announced = self._news.is_set()
        self._news.clear()
        return announced

    async def _make_consumer(self) -> None:
        try:
            await self._queue.make_consumer(self._ack_wait)
        except MeshError as error:
            log.warning("cannot take collections up", error=str(error))
            await asyncio.sleep(AWAY_SECONDS)
