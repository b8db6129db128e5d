"""Jobs that wait for something to be there first: held, but in nobody's way."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nats.aio.msg import Msg

from mesh.bus import Bus, storing
from mesh.errors import MeshError, NotFoundError
from orchestrator.jobs import Jobs, UnreadableError
from ytcaption.v1 import event_pb2

MAX_PARKED = 500
LOOK_SECONDS = 15.0
"""The end is heard of at once; so often we look, in case we did not hear."""
FIRST_AWAY, LONGEST_AWAY = 30.0, 900.0
"""Those there is no room for go back to the queue for so long; each return is a delivery."""


class Place:
    """One of a runner's places, held by a job unless it leaves it to others."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._held = True

    def leave(self) -> None:
        """Lets another job have it."""
        if self._held:
            self._held = False
            self._places.release()

    async def take(self) -> None:
        """Waits for a free one."""
        await self._places.acquire()
        self._held = True


class Parking:
    """Counts the jobs that are held, and knows when a twin has ended."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._jobs = Jobs(bus)
        self._parked = 0

    @property
    def full(self) -> bool:
        """Whether no more can be held."""
        return self._parked >= MAX_PARKED

    @contextmanager
    def space(self) -> Iterator[None]:
        """Room for one that waits."""
        self._parked += 1
        try:
            yield
        finally:
            self._parked -= 1

    async def until_ended(self, job_id: str, twin_id: str) -> None:
        """Until the twin has ended, or the job itself is no longer to wait."""
        ended = asyncio.Event()

        async def on_event(message: Msg) -> None:
            event = event_pb2.Event.FromString(message.data)
            if event.type == event_pb2.EVENT_TYPE_JOB_FINISHED:
                ended.set()

        async with storing():
            story = await self._bus.client.subscribe(
                self._bus.names.live(twin_id, "event"), cb=on_event
            )
        try:
            while not ended.is_set() and await self._both_wait(job_id, twin_id):
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await ended.wait()
        finally:
            if not self._bus.client.is_closed:
                await story.unsubscribe()

    async def _both_wait(self, job_id: str, twin_id: str) -> bool:
        try:
            twin, own = await self._jobs.get(twin_id), await self._jobs.get(job_id)
        except (NotFoundError, UnreadableError):  # one of them is gone
            return False
        except MeshError:  # the broker is away; it will be asked again
            return True
        return not (twin.terminal or own.terminal or own.record.cancel_requested)


def seconds_away(deliveries: int) -> float:
    """How long a job stays in the queue that found no room here; longer each time."""
    return min(LONGEST_AWAY, FIRST_AWAY * 2.0 ** min(deliveries - 1, 10))
