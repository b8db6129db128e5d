"""Fan-out: creates the members' jobs, at most max_in_flight at once, each exactly once.

First the job's id is reserved under a request_id that only this member has. Then the intention goes
into the event log, which refuses it if another controller has taken over. Only then is the job
created. A crash in between leaves an intention that the next controller carries out, or drops if
the collection has ended meanwhile.
"""

from collections import deque
from copy import deepcopy
from time import monotonic

from structlog import get_logger

from mesh.bus import outlast
from mesh.errors import InvalidRequestError, MeshError
from mesh.reasons import Reason
from orchestrator.collections.fan_in import FanIn
from orchestrator.collections.members import PENDING, refused
from orchestrator.collections.projection import CollectionEventWriter
from orchestrator.collections.sent_files import SentFiles, is_sent_file
from orchestrator.jobs.submission import JobSpec, Reservation, Submission
from orchestrator.jobs.validation import SchedulingKey, check_url
from orchestrator.queue.capacity import Capacity
from ytcaption.v1 import collection_pb2, job_pb2

log = get_logger(__name__)

AT_ONCE = 10
"""Jobs created before the controller checks the deadline and cancel requests again."""
AGAIN_SECONDS = 1.0
"""Pause after a full or absent store: its recovery is not announced."""


class FanOut:
    """Creates the jobs of one collection."""

    def __init__(
        self,
        events: CollectionEventWriter,
        fan_in: FanIn,
        submission: Submission,
        capacity: Capacity,
        sent_files: SentFiles,
    ) -> None:
        self._sent_files = sent_files
        self._events = events
        self._fan_in = fan_in
        self._submission = submission
        self._capacity = capacity
        self._intended: dict[int, Reservation] = {}
        """Members whose job is in the event log, but not created yet."""
        self._max_in_flight = events.collection.max_in_flight
        self._not_before = float("-inf")
        self._waiting = deque(
            member.number
            for member in events.projection.members
            if member.state == PENDING and not member.job_id
        )

    def add(self, number: int) -> None:
        """Queues a new member."""
        self._waiting.append(number)

    def intends(self, number: int) -> bool:
        """Whether a member's job is still to be created."""
        return number in self._intended

    async def create_more(self) -> bool:
        """Creates some jobs while there are free places and capacity; True if there may be more."""
        if monotonic() < self._not_before:
            return False
        try:
            for number in list(self._intended):
                await self._create(number)
            for _ in range(AT_ONCE):
                if not self._waiting or self._fan_in.in_flight >= self._max_in_flight:
                    return False
                number = self._waiting[0]
                await self._intend(number)
                self._waiting.popleft()
                if self.intends(number):
                    await self._create(number)
        except MeshError as error:
            if not _may_pass(error):
                raise
            log.warning("members wait", error=str(error))
            self._not_before = monotonic() + AGAIN_SECONDS
            return False
        return True

    async def resume(self, member: collection_pb2.Member) -> bool:
        """Resumes the intention of a controller that died; False if the job was deleted."""
        reservation = await outlast(lambda: self._submission.reserved(self._request_id(member)))
        if reservation is None or reservation.id != member.job_id:
            return False
        self._intended[member.number] = reservation
        return True

    def drop(self, number: int) -> None:
        """Gives up the intention: the job will not be created."""
        self._intended.pop(number, None)

    async def _intend(self, number: int) -> None:
        member = self._events.projection.members[number - 1]
        if member.state != PENDING:  # the collection was over before its turn came
            return
        try:
            if not is_sent_file(member):
                check_url(member.source_url)
        except InvalidRequestError as error:
            await self._events.append_member(refused(member, error))
            return
        await self._capacity.check()
        reservation = await self._submission.reserve(self._request_id(member))
        intended = deepcopy(member)
        intended.job_id = reservation.id
        await self._events.append_member(intended)
        await self._fan_in.follow(intended)
        self._intended[number] = reservation

    async def _create(self, number: int) -> None:
        reservation, member = self._intended[number], self._events.projection.members[number - 1]
        try:
            if not reservation.accepted:
                await self._accept(reservation, member)
        except MeshError as error:
            if _may_pass(error):
                raise
            await self._events.append_member(refused(member, error))
            await self._fan_in.leave(number)
        del self._intended[number]

    async def _accept(self, reservation: Reservation, member: collection_pb2.Member) -> None:
        if not is_sent_file(member):
            source = job_pb2.Source(url=member.source_url.strip())
            await self._submission.accept(reservation, self._spec(source))
            return
        projection = self._events.projection
        async with self._sent_files.fetched(projection, member) as (source, path):
            await self._submission.accept(reservation, self._spec(source), path)
        await self._sent_files.drop(projection, member)

    def _spec(self, source: job_pb2.Source) -> JobSpec:
        collection = self._events.collection
        return JobSpec(
            source,
            collection.options,
            SchedulingKey(collection.caller, collection.priority),
            collection.correlation_id,
            self._events.projection.request.force,
            collection_id=collection.collection_id,
            owner=collection.owner,
            group=collection.group,
        )

    def _request_id(self, member: collection_pb2.Member) -> str:
        """Unique per address, since an address has one number."""
        return f"collection {self._events.collection.collection_id} {member.number}"


def _may_pass(error: MeshError) -> bool:
    return error.retryable or error.reason == Reason.STORAGE_FULL
