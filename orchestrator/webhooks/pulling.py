"""A durable consumer that every replica pulls from, for as long as the process lives."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext, api
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import MeshError
from mesh.tasks import stop

log = get_logger(__name__)

WAIT_SECONDS = 5.0
AWAY_SECONDS = 0.5
FAULT_SECONDS = 30.0


class Puller:
    """Takes one message at a time, and has as many in hand as it may."""

    def __init__(self, bus: Bus, stream: str, config: api.ConsumerConfig, at_once: int) -> None:
        self._bus = bus
        self._stream = stream
        self._config = config
        self._free = asyncio.Semaphore(at_once)
        self._handling: set[asyncio.Task[None]] = set()

    async def make(self) -> None:
        """Makes the consumer if it is missing or set up otherwise; every replica may."""
        async with storing():
            await self._bus.jetstream.add_consumer(self._stream, self._config)

    async def run(self, handle: Callable[[Msg], Awaitable[None]]) -> None:
        """Hands on every message until cancelled."""
        try:
            while True:
                try:
                    await self.make()
                    await self._pull(handle)
                except (MeshError, NatsError) as error:
                    log.warning("cannot pull", stream=self._stream, error=str(error))
                await asyncio.sleep(AWAY_SECONDS)
        finally:
            await stop(*self._handling)

    async def _pull(self, handle: Callable[[Msg], Awaitable[None]]) -> None:
        async with storing():
            pulling = await self._bus.jetstream.pull_subscribe_bind(
                str(self._config.durable_name), stream=self._stream
            )
        try:
            while True:
                await self._free.acquire()
                try:
                    message = await self._next(pulling)
                except BaseException:
                    self._free.release()
                    raise
                task = asyncio.create_task(self._deal_with(message, handle))
                self._handling.add(task)
                task.add_done_callback(self._handling.discard)
        finally:
            if not self._bus.client.is_closed:
                with suppress(NatsError):
                    await pulling.unsubscribe()

    async def _next(self, pulling: JetStreamContext.PullSubscription) -> Msg:
        while True:
            try:
                return (await pulling.fetch(1, timeout=WAIT_SECONDS))[0]
            except TimeoutError:  # nothing there
                continue

    async def _deal_with(self, message: Msg, handle: Callable[[Msg], Awaitable[None]]) -> None:
        try:
            await handle(message)
        except (MeshError, NatsError) as error:  # the broker is away; it will deliver it again
            log.warning("put off", stream=self._stream, error=str(error))
        except Exception:
            log.exception("put off", stream=self._stream)
            with suppress(NatsError):
                await message.nak(delay=FAULT_SECONDS)
        finally:
            self._free.release()
