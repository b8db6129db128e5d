"""A durable consumer that all replicas share, asked for one message at a time."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NothingCameError
from nats.js import JetStreamContext, api
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import MeshError

log = get_logger(__name__)

WAIT_SECONDS = 2.0
AGAIN_SECONDS = 0.5


class SharedPull:
    """What the broker has for us, one by one, for ever."""

    def __init__(self, bus: Bus, stream: str, config: api.ConsumerConfig) -> None:
        self._bus = bus
        self._stream = stream
        self._config = config
        self._name = str(config.durable_name)

    async def make(self) -> None:
        """Makes the consumer if it is missing; every replica may, at any time."""
        async with storing():
            await self._bus.jetstream.add_consumer(self._stream, self._config)

    async def messages(self) -> AsyncGenerator[Msg, None]:
        """Outlasts a broker that is away, and a consumer that somebody deleted."""
        while True:
            try:
                await self.make()
                async with storing():
                    pulled = await self._bus.jetstream.pull_subscribe_bind(self._name, self._stream)
            except MeshError as error:
                log.warning("cannot pull", consumer=self._name, error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            try:
                async for message in self._one_by_one(pulled):
                    yield message
            finally:
                with suppress(NatsError):
                    await pulled.unsubscribe()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _one_by_one(self, pulled: JetStreamContext.PullSubscription) -> AsyncIterator[Msg]:
        """Until the broker says that there is no such consumer, or nothing at all."""
        while True:
            try:
                # One: of more, some came seconds late (nats.py #986).
                found = await pulled.fetch(1, timeout=WAIT_SECONDS)
            except NothingCameError:
                continue
            except NatsError as error:
                log.warning("cannot pull", consumer=self._name, error=str(error))
                return
            for message in found:
                yield message


async def acknowledge(message: Msg) -> None:
    """Done with it. If the broker does not hear of it, the message comes again."""
    with suppress(NatsError):
        await message.ack()


async def put_back(message: Msg, seconds: float) -> None:
    """To be delivered again, not at once."""
    with suppress(NatsError):
        await message.nak(delay=seconds)
