"""What becomes of the members' jobs: heard of at once, and looked up for certain."""

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from time import monotonic

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from mesh.bus import Bus, outlast
from orchestrator.collections.journal import Journal
from orchestrator.collections.ledger import FAILED, awaits_its_job
from orchestrator.collections.members import told_by_job
from orchestrator.index import JobIndex
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2

SHOW_SECONDS = 0.5
"""Live figures of a member are handed on at most so often."""

MISSING_SECONDS = 1.0
"""A job that cannot be found for so long is gone, not just new."""

DEAD = (None, job_pb2.JOB_STATE_FAILED)

TELLING = frozenset(
    {
        event_pb2.EVENT_TYPE_ATTEMPT_STARTED,
        event_pb2.EVENT_TYPE_MEDIA_FOUND,
        event_pb2.EVENT_TYPE_JOB_FINISHED,
    }
)
"""Events of a job after which its member may stand elsewhere."""


class FanIn:
    """Follows the jobs of one collection until each has ended."""

    def __init__(
        self, bus: Bus, journal: Journal, index: JobIndex, wake: Callable[[], None]
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._index = index
        self._wake = wake
        self._open: dict[int, str] = {}
        """Job ids by the number of the member."""
        self._seen: dict[int, bytes] = {}
        self._missed: dict[int, float] = {}
        self._shown: dict[int, float] = {}
        self._unshown: dict[int, collection_pb2.MemberProgress] = {}
        self._heard = True
        self._listening: dict[int, Subscription] = {}

    @property
    def in_flight(self) -> int:
        """Members with a job that has not ended."""
        return len(self._open)

    @property
    def jobs(self) -> dict[int, str]:
        """Their jobs by the number of the member."""
        return dict(self._open)

    async def open(self) -> None:
        """Goes on where the last conductor stopped."""
        for member in self._journal.ledger.members:
            if awaits_its_job(member):
                await self.follow(member)

    async def close(self) -> None:
        """Listens no more."""
        for number in list(self._open):
            await self.leave(number)

    async def follow(self, member: collection_pb2.Member) -> None:
        """From here on the member goes as its job goes."""
        self._open[member.number] = member.job_id
        subject = self._bus.names.live(member.job_id, "*")
        self._listening[member.number] = await self._bus.client.subscribe(
            subject, cb=partial(self._on_live, member.number)
        )

    async def leave(self, number: int) -> None:
        """It can change no more."""
        listening = self._listening.pop(number)
        del self._open[number]
        self._seen.pop(number, None)
        self._missed.pop(number, None)
        self._shown.pop(number, None)
        self._unshown.pop(number, None)
        if not self._bus.client.is_closed:
            await listening.unsubscribe()

    def distrust(self) -> None:
        """The next look asks the store."""
        self._heard = True

    async def look(self) -> list[int]:
        """Tells what changed; returns members whose jobs are nowhere to be found."""
        if self._heard:
            self._heard = False
            await outlast(self._index.catch_up)
        await self._find_revived()
        for number in list(self._unshown):
            await self._show(number)
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
        collection = self._journal.collection
        deadline = collection.deadline if collection.HasField("deadline") else None
        changed = told_by_job(self._journal.ledger.members[number - 1], job, deadline)
        if changed is not None:
            await self._journal.tell_member(changed)
            if not awaits_its_job(changed):
                await self.leave(number)

    async def _find_revived(self) -> None:
        """Dead jobs may be replayed; then their members are under way again."""
        ledger = self._journal.ledger
        if not ledger.count(FAILED):
            return
        for member in ledger.members:
            revived = member.state == FAILED and self._index.state(member.job_id) not in DEAD
            if revived and member.number not in self._open:
                await self.follow(member)

    async def _on_live(self, number: int, message: Msg) -> None:
        if message.subject.endswith(".progress"):
            live = job_pb2.JobProgress.FromString(message.data)
            figures = collection_pb2.MemberProgress(number=number, job_id=live.job_id)
            if live.HasField("progress"):
                figures.progress = live.progress
            self._unshown[number] = figures
            await self._show(number)
        elif event_pb2.Event.FromString(message.data).type in TELLING:
            self._heard = True
            self._wake()

    async def _show(self, number: int) -> None:
        """What comes too soon waits: the last figures before a pause must not be lost."""
        now = asyncio.get_running_loop().time()
        if number in self._open and now - self._shown.get(number, -inf) >= SHOW_SECONDS:
            self._shown[number] = now
            await self._journal.story.show_progress(self._unshown.pop(number))
