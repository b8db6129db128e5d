"""Beginning members: so many at once, each job exactly once.

First the job's id is claimed under a request_id that only this member has. Then the intention goes
into the story, which refuses it if another conductor has taken over. Only then is the job made.
Whoever dies in between leaves an intention that the next one carries out, or drops if the
collection has ended meanwhile.
"""

from collections import deque
from time import monotonic

from structlog import get_logger

from mesh.bus import outlast
from mesh.errors import MeshError
from mesh.reasons import Reason
from orchestrator.collections.fanin import FanIn
from orchestrator.collections.journal import Journal
from orchestrator.collections.ledger import PENDING
from orchestrator.collections.members import copy_of, refused
from orchestrator.collections.request import refusal
from orchestrator.options import Turn
from orchestrator.room import Room
from orchestrator.submission import Submission, Ticket, Wish
from ytcaption.v1 import collection_pb2, job_pb2

log = get_logger(__name__)

AT_ONCE = 10
"""Between so many of them the deadline and a caller's wish to stop are looked at."""
AGAIN_SECONDS = 1.0
"""Nobody says when there is room again, or the store is back."""


class FanOut:
    """Makes the jobs of one collection."""

    def __init__(self, journal: Journal, fan_in: FanIn, submission: Submission, room: Room) -> None:
        self._journal = journal
        self._fan_in = fan_in
        self._submission = submission
        self._room = room
        self._intended: dict[int, Ticket] = {}
        """Members whose job is told of, but not yet made."""
        self._max_in_flight = journal.collection.max_in_flight
        self._not_before = float("-inf")
        self._waiting = deque(
            member.number
            for member in journal.ledger.members
            if member.state == PENDING and not member.job_id
        )

    def add(self, number: int) -> None:
        """A member was found."""
        self._waiting.append(number)

    def intends(self, number: int) -> bool:
        """Whether a member's job is still to be made."""
        return number in self._intended

    async def begin_more(self) -> bool:
        """Begins some members if there are places, and room; True if there are still both."""
        if monotonic() < self._not_before:
            return False
        try:
            for number in list(self._intended):
                await self._make(number)
            for _ in range(AT_ONCE):
                if not self._waiting or self._fan_in.in_flight >= self._max_in_flight:
                    return False
                await self._begin(self._waiting[0])
                self._waiting.popleft()
        except MeshError as error:
            if not _passes(error):
                raise
            log.warning("members wait", error=str(error))
            self._not_before = monotonic() + AGAIN_SECONDS
            return False
        return True

    async def resume(self, member: collection_pb2.Member) -> bool:
        """Carries out the intention of a conductor that died; False if the job was deleted."""
        ticket = await outlast(lambda: self._submission.claimed(self._request_id(member)))
        if ticket is None or ticket.job_id != member.job_id:
            return False
        self._intended[member.number] = ticket
        return True

    def drop(self, number: int) -> None:
        """Its job will not be made."""
        self._intended.pop(number, None)

    async def _begin(self, number: int) -> None:
        member = self._journal.ledger.members[number - 1]
        if error := refusal(member.source_url):
            await self._journal.tell_member(refused(member, error))
            return
        if not member.job_id:
            await self._room.check()
            ticket = await self._submission.ticket(self._request_id(member))
            intended = copy_of(member)
            intended.job_id = ticket.job_id
            await self._journal.tell_member(intended)
            await self._fan_in.follow(intended)
            self._intended[number] = ticket
        await self._make(number)

    async def _make(self, number: int) -> None:
        ticket, member = self._intended[number], self._journal.ledger.members[number - 1]
        try:
            if not ticket.accepted:
                await self._submission.accept(ticket, self._wish(member))
        except MeshError as error:
            if _passes(error):
                raise
            await self._journal.tell_member(refused(member, error))
            await self._fan_in.leave(number)
        del self._intended[number]

    def _wish(self, member: collection_pb2.Member) -> Wish:
        collection = self._journal.collection
        return Wish(
            job_pb2.Source(url=member.source_url.strip()),
            collection.options,
            Turn(collection.caller, collection.priority),
            collection.correlation_id,
            self._journal.ledger.request.force,
            collection_id=collection.collection_id,
        )

    def _request_id(self, member: collection_pb2.Member) -> str:
        """One address has one number, so this stands for the address."""
        return f"collection {self._journal.collection.collection_id} {member.number}"


def _passes(error: MeshError) -> bool:
    return error.retryable or error.reason == Reason.STORAGE_FULL
