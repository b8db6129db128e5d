"""Blocked jobs: their runner keeps their work items, but they occupy no slot."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from nats.aio.msg import Msg

from mesh.bus import Bus
from mesh.errors import MeshError, NotFoundError
from orchestrator.jobs.store import JobStore, UnreadableError
from orchestrator.worker.retry import Backoff
from ytcaption.v1 import event_pb2

MAX_BLOCKED = 500
POLL_SECONDS = 15.0
"""The end of a job is announced; the record is read this often in case the message was lost."""
REQUEUE_BACKOFF = Backoff(first=30, limit=900)
"""For jobs over MAX_BLOCKED, which go back to the queue; each return counts as a delivery."""
QUOTA_BACKOFF = Backoff(first=5, limit=120)
"""For jobs of one owner over the number that may wait for its quota."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """What a job waits for before it can begin."""

    wait: Callable[[], Awaitable[None]]
    is_crowded: bool = False
    """Whether the job should go back to the queue, as enough like it wait here."""


class BlockedJobs:
    """Counts blocked jobs, and waits for the jobs they depend on."""

    def __init__(self, bus: Bus, jobs: JobStore) -> None:
        self._bus = bus
        self._jobs = jobs
        self._count = 0

    @property
    def full(self) -> bool:
        """Whether no more jobs may block here."""
        return self._count >= MAX_BLOCKED

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts one blocked job inside this block."""
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    async def until_ended(self, job_id: str, original_id: str) -> None:
        """Waits until the original job has ended, or the job itself has or is to be cancelled."""
        ended = asyncio.Event()

        async def on_event(message: Msg) -> None:
            event = event_pb2.Event.FromString(message.data)
            if event.type == event_pb2.EVENT_TYPE_JOB_FINISHED:
                ended.set()

        async with self._bus.subscribed(self._bus.names.live(original_id, "event"), on_event):
            while not ended.is_set() and await self._must_wait(job_id, original_id):
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await ended.wait()

    async def _must_wait(self, job_id: str, original_id: str) -> bool:
        try:
            original, own = await self._jobs.get(original_id), await self._jobs.get(job_id)
        except (NotFoundError, UnreadableError):  # one of them is gone
            return False
        except MeshError:  # the broker is away; it will be asked again
            return True
        return not (original.terminal or own.terminal or own.record.cancel_requested)
