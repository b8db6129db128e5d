"""Fan-in: follows members' jobs by live messages, and confirms every change in the job index."""

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from time import monotonic

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from mesh.bus import Bus, outlast
from mesh.messages import copy_shared
from orchestrator.collections.members import FAILED, awaits_its_job, updated_from_job
from orchestrator.collections.projection import CollectionEventWriter
from orchestrator.jobs.index import JobIndex
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2

PUBLISH_SECONDS = 0.5
"""The live progress of a member is published at most this often."""

MISSING_SECONDS = 1.0
"""A job missing from the index for this long was deleted, or never created."""

DEAD = (None, job_pb2.JOB_STATE_FAILED)

CHANGING = frozenset(
    {
        event_pb2.EVENT_TYPE_ATTEMPT_STARTED,
        event_pb2.EVENT_TYPE_MEDIA_FOUND,
        event_pb2.EVENT_TYPE_JOB_FINISHED,
    }
)
"""Events of a job after which its member may change."""


class FanIn:
    """Follows the jobs of one collection until each has ended."""

    def __init__(
        self, bus: Bus, events: CollectionEventWriter, index: JobIndex, wake: Callable[[], None]
    ) -> None:
        self._bus = bus
        self._events = events
        self._index = index
        self._wake = wake
        self._open: dict[int, str] = {}
        """Job ids by member number."""
        self._seen: dict[int, bytes] = {}
        self._missed: dict[int, float] = {}
        self._published_at: dict[int, float] = {}
        self._unpublished: dict[int, collection_pb2.MemberProgress] = {}
        self._stale = True
        self._subscriptions: dict[int, Subscription] = {}

    @property
    def in_flight(self) -> int:
        """Members with a job that has not ended."""
        return len(self._open)

    @property
    def jobs(self) -> dict[int, str]:
        """Job ids by member number."""
        return dict(self._open)

    async def open(self) -> None:
        """Follows the unfinished jobs of a collection that is resumed."""
        for member in self._events.projection.members:
            if awaits_its_job(member):
                await self.follow(member)

    async def close(self) -> None:
        """Unsubscribes from every job."""
        for number in list(self._open):
            await self.leave(number)

    async def follow(self, member: collection_pb2.Member) -> None:
        """Follows the member's job from here on."""
        self._open[member.number] = member.job_id
        subject = self._bus.names.live(member.job_id, "*")
        self._subscriptions[member.number] = await self._bus.client.subscribe(
            subject, cb=partial(self._on_live, member.number)
        )

    async def leave(self, number: int) -> None:
        """Stops following a member that can no longer change."""
        subscription = self._subscriptions.pop(number)
        del self._open[number]
        self._seen.pop(number, None)
        self._missed.pop(number, None)
        self._published_at.pop(number, None)
        self._unpublished.pop(number, None)
        if not self._bus.client.is_closed:
            await subscription.unsubscribe()

    def mark_stale(self) -> None:
        """Makes the next refresh catch up with the store."""
        self._stale = True

    async def refresh(self) -> list[int]:
        """Appends what changed; returns the members whose jobs are missing."""
        if self._stale:
            self._stale = False
            await outlast(self._index.catch_up)
        await self._find_revived()
        for number in list(self._unpublished):
            await self._publish(number)
        return [number for number in list(self._open) if await self._is_missing(number)]

    async def _is_missing(self, number: int) -> bool:
        stored = self._index.stored(self._open[number])
        if stored is None:
            since = self._missed.setdefault(number, monotonic())
            return monotonic() - since >= MISSING_SECONDS
        self._missed.pop(number, None)
        if stored is not self._seen.get(number):
            self._seen[number] = stored
            await self._note(number, job_pb2.JobRecord.FromString(stored).job)
        return False

    async def _note(self, number: int, job: job_pb2.Job) -> None:
        collection = self._events.collection
        deadline = collection.deadline if collection.HasField("deadline") else None
        changed = updated_from_job(self._events.projection.members[number - 1], job, deadline)
        if changed is not None:
            await self._events.append_member(changed)
            if not awaits_its_job(changed):
                await self.leave(number)

    async def _find_revived(self) -> None:
        """Follows dead jobs that were replayed."""
        projection = self._events.projection
        if not projection.count(FAILED):
            return
        for member in projection.members:
            revived = member.state == FAILED and self._index.state(member.job_id) not in DEAD
            if revived and member.number not in self._open:
                await self.follow(member)

    async def _on_live(self, number: int, message: Msg) -> None:
        if message.subject.endswith(".progress"):
            progress = collection_pb2.MemberProgress(number=number)
            copy_shared(job_pb2.JobProgress.FromString(message.data), progress)
            self._unpublished[number] = progress
            await self._publish(number)
        elif event_pb2.Event.FromString(message.data).type in CHANGING:
            self._stale = True
            self._wake()

    async def _publish(self, number: int) -> None:
        """Publishes progress unless it is too soon; then it waits, so that the last is not lost."""
        now = asyncio.get_running_loop().time()
        if number in self._open and now - self._published_at.get(number, -inf) >= PUBLISH_SECONDS:
            self._published_at[number] = now
            await self._events.event_log.publish_progress(self._unpublished.pop(number))
