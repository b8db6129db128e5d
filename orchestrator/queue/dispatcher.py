"""The dispatcher: pulls the next work item from the lane whose turn it is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import cycle, islice
from typing import Self

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import MeshError
from orchestrator.queue.consumers import AWAY_SECONDS, Puller
from orchestrator.queue.lanes import LANES, LaneRotation
from orchestrator.queue.work_queue import WorkQueue, lane_of_subject

log = get_logger(__name__)

LOOK_SECONDS = 1.0
"""Items that other replicas give back are not announced: lanes with items are asked this often."""
SETTLE_SECONDS = 1.0
"""An item is announced before it is stored: its lane is asked again for this long."""
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.2
LANES_A_LOOK = 48
"""Lanes asked at each look while there are too many items to ask which lanes have some."""


class Dispatcher:
    """Asks only lanes that may have items, which are few; one caller at a time."""

    def __init__(self, bus: Bus, queue: WorkQueue) -> None:
        self._bus = bus
        self._queue = queue
        self._puller = Puller(bus, bus.names.work_stream)
        self._rotation = LaneRotation()
        self._candidates: dict[str, float] = {}
        """Lanes that may have items, and until when an empty one is asked again."""
        self._announced = asyncio.Event()
        self._pause = FIRST_PAUSE
        self._next_look = 0.0
        self._created: set[str] = set()
        self._every_lane = cycle(LANES)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        """Receives announcements of new items inside this block."""

        async def on_item(message: Msg) -> None:
            lane = lane_of_subject(message.subject)
            if lane in LANES:
                self._expect_now(lane)

        subject = self._bus.names.work("*", "*")
        async with self._puller.listening(), self._bus.subscribed(subject, on_item):
            yield self

    async def next(self) -> Msg:
        """The item whose turn it is; waits for one."""
        while True:
            try:
                message = await self._pull_next()
            except (MeshError, NatsError) as error:
                log.warning("cannot pull work", error=str(error))
                self._created.clear()  # the broker may have lost a lane
                self._next_look = 0.0
                await asyncio.sleep(AWAY_SECONDS)
                continue
            if message is not None:
                return message
            await self._rest()

    def expect(self, subject: str, seconds: float) -> None:
        """Looks at the lane then: an item we gave back with a delay is not announced."""
        lane = lane_of_subject(subject)
        asyncio.get_running_loop().call_later(seconds, self._expect_now, lane)

    def _expect_now(self, lane: str) -> None:
        self._candidates[lane] = _now() + SETTLE_SECONDS
        self._pause = FIRST_PAUSE
        self._announced.set()

    async def _pull_next(self) -> Msg | None:
        if _now() >= self._next_look:
            await self._look()
        for lane in self._rotation.order():
            if lane not in self._candidates:
                continue
            message = await self._pull(lane)
            if message is not None:
                self._rotation.served(lane)
                return message
            if _now() >= self._candidates[lane]:
                del self._candidates[lane]
        return None

    async def _pull(self, lane: str) -> Msg | None:
        if lane not in self._created:  # most are never used
            if not await self._queue.has_items(lane):
                return None
            await self._queue.create_lane(lane)
            self._created.add(lane)
        return await self._puller.pull(lane)

    async def _look(self) -> None:
        lanes = await self._queue.lanes_in_use()
        for lane in islice(self._every_lane, LANES_A_LOOK) if lanes is None else lanes:
            self._candidates.setdefault(lane, 0.0)
        self._next_look = _now() + LOOK_SECONDS

    async def _rest(self) -> None:
        pause = self._next_look - _now()
        if self._candidates:
            pause = min(pause, self._pause)
            self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._announced.wait()
            # Its submission is just storing it, and then the job's record.
            await asyncio.sleep(FIRST_PAUSE)
        self._announced.clear()


def _now() -> float:
    return asyncio.get_running_loop().time()
