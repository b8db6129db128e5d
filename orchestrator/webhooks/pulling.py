"""Many messages of one consumer in hand at once, each dealt with in its own time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import api
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import MeshError
from mesh.tasks import side_by_side
from orchestrator.shared_pull import SharedPull, put_back

log = get_logger(__name__)

Handle = Callable[[Msg], Awaitable[None]]
FAULT_SECONDS = 30.0


class Puller:
    """Takes one message at a time, and has as many in hand as it may."""

    def __init__(self, bus: Bus, stream: str, config: api.ConsumerConfig, at_once: int) -> None:
        self._stream = stream
        self._pull = SharedPull(bus, stream, config)
        self._free = asyncio.Semaphore(at_once)

    async def make(self) -> None:
        """Makes the consumer if it is missing; every replica may."""
        await self._pull.make()

    async def run(self, handle: Handle) -> None:
        """Hands on every message until cancelled."""
        async with aclosing(self._pull.messages()) as messages:
            await side_by_side(partial(self._next, messages), partial(self._deal_with, handle))

    async def _next(self, messages: AsyncGenerator[Msg, None]) -> Msg:
        await self._free.acquire()  # before one is taken that nobody could deal with
        return await anext(messages)

    async def _deal_with(self, handle: Handle, message: Msg) -> None:
        try:
            await handle(message)
        except (MeshError, NatsError) as error:  # the broker is away; it will deliver it again
            log.warning("put off", stream=self._stream, error=str(error))
        except Exception:
            log.exception("put off", stream=self._stream)
            await put_back(message, FAULT_SECONDS)
        finally:
            self._free.release()
