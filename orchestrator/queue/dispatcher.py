"""Finds the next item of work for whoever is free: one caller after another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import MeshError
from orchestrator.lanes import LANES, Turns
from orchestrator.pulling import NoLaneError, Puller
from orchestrator.queue import WorkQueue, lane_of_subject

log = get_logger(__name__)

LOOK_SECONDS = 1.0
"""Items that come back from others are not announced: so often lanes with items are asked."""
SETTLE_SECONDS = 1.0
"""An item is announced before it is stored: for so long its lane is asked again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.2
AWAY_SECONDS = 0.25


class Dispatcher:
    """Asks only lanes that may have work; those are few however many there are."""

    def __init__(self, bus: Bus, queue: WorkQueue) -> None:
        self._bus = bus
        self._queue = queue
        self._puller = Puller(bus, bus.names.work_stream)
        self._turns = Turns()
        self._hopeful: dict[str, float] = {}
        """Lanes that may have work, and until when an empty one is given another chance."""
        self._news = asyncio.Event()
        self._pause = FIRST_PAUSE
        self._next_look = 0.0
        self._made: set[str] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        """Hears of new work inside this block."""

        async def on_item(message: Msg) -> None:
            lane = lane_of_subject(message.subject)
            if lane in LANES:
                self._expect_now(lane)

        async with self._puller.listening():
            async with storing():
                items = await self._bus.client.subscribe(self._bus.names.work("*", "*"), cb=on_item)
            try:
                yield self
            finally:
                if not self._bus.client.is_closed:
                    await items.unsubscribe()

    async def next(self) -> Msg:
        """The item whose turn it is; waits until there is one."""
        while True:
            try:
                message = await self._ask_around()
            except NoLaneError:
                self._made.clear()
            except (MeshError, NatsError) as error:
                log.warning("cannot pull work", error=str(error))
            else:
                if message is not None:
                    return message
                await self._rest()
                continue
            self._next_look = 0.0
            await asyncio.sleep(AWAY_SECONDS)

    def expect(self, subject: str, seconds: float) -> None:
        """An item of ours comes back then, which is not announced either."""
        lane = lane_of_subject(subject)
        asyncio.get_running_loop().call_later(seconds, self._expect_now, lane)

    def _expect_now(self, lane: str) -> None:
        self._hopeful[lane] = _now() + SETTLE_SECONDS
        self._pause = FIRST_PAUSE
        self._news.set()

    async def _ask_around(self) -> Msg | None:
        if _now() >= self._next_look:
            await self._look()
        for lane in self._turns.order():
            if lane not in self._hopeful:
                continue
            message = await self._ask(lane)
            if message is not None:
                self._turns.served(lane)
                return message
            if _now() >= self._hopeful[lane]:
                del self._hopeful[lane]
        return None

    async def _ask(self, lane: str) -> Msg | None:
        if lane not in self._made:  # most are never used
            await self._queue.make_lane(lane)
            self._made.add(lane)
        return await self._puller.ask(lane)

    async def _look(self) -> None:
        for lane in await self._queue.lanes_in_use():
            self._hopeful.setdefault(lane, 0.0)
        self._next_look = _now() + LOOK_SECONDS

    async def _rest(self) -> None:
        pause = self._next_look - _now()
        if self._hopeful:
            pause = min(pause, self._pause)
            self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._news.wait()
            # Whoever announced it is just storing it, and then the job's record.
            await asyncio.sleep(FIRST_PAUSE)
        self._news.clear()


def _now() -> float:
    return asyncio.get_running_loop().time()
