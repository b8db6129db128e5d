"""Keeps one collection going: finds members, begins them, gathers what becomes of them."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from google.protobuf.timestamp import from_current_time
from nats.aio.msg import Msg
from structlog import get_logger

from mesh.bus import outlast
from mesh.tasks import stop
from orchestrator.collections.discovery import Discovery, Exhausted, Found, Listed
from orchestrator.collections.fanin import FanIn
from orchestrator.collections.fanout import FanOut
from orchestrator.collections.instruments import Instruments
from orchestrator.collections.journal import Journal
from orchestrator.collections.ledger import (
    CANCELLED,
    PENDING,
    RUNNING,
    TIMED_OUT,
    Ledger,
)
from orchestrator.collections.members import copy_of, ended, never_begun, new_member
from orchestrator.collections.records import KeptCollection
from orchestrator.collections.stopping import stop_jobs
from orchestrator.lease import LostError
from ytcaption.v1 import collection_pb2, event_pb2

log = get_logger(__name__)

LOOK_SECONDS = 1.0
"""What nobody told us of is found this soon."""
FOUND_AT_ONCE = 10
"""So many members are noted before the next are begun."""


class Conductor:
    """One collection, from wherever the last conductor left it until it is settled."""

    def __init__(self, instruments: Instruments, kept: KeptCollection, ledger: Ledger) -> None:
        self._with = instruments
        self._journal = Journal(instruments.bus, instruments.records, kept, ledger)
        self._news = asyncio.Event()
        self._fan_in = FanIn(instruments.bus, self._journal, instruments.index, self._news.set)
        self._fan_out = FanOut(
            self._journal, self._fan_in, instruments.submission, instruments.room
        )
        self._discovery = Discovery(
            instruments.lister,
            ledger,
            max_members=kept.record.max_members,
            wake=self._news.set,
        )
        self._finding: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def _collection(self) -> collection_pb2.Collection:
        return self._journal.collection

    @property
    def _gathered(self) -> bool:
        return self._collection.HasField("end_time")

    async def conduct(self) -> None:
        """Returns once nothing of the collection can change any more."""

        async def on_cancel(_: Msg) -> None:
            self._fan_in.distrust()
            self._news.set()

        names, client = self._with.bus.names, self._with.bus.client
        cancels = await client.subscribe(names.cancel(self._collection.collection_id), cb=on_cancel)
        try:
            await self._fan_in.open()
            if not self._gathered and not self._collection.discovery_complete:
                self._finding = asyncio.create_task(self._discovery.run())
            while not await self._step():
                await self._until_news()
        finally:
            await stop(*(task for task in (self._finding, self._stopping) if task))
            await self._fan_in.close()
            if not client.is_closed:
                await cancels.unsubscribe()

    async def _until_news(self) -> None:
        seconds = LOOK_SECONDS
        if not self._gathered and self._collection.HasField("deadline"):
            seconds = max(0.0, min(seconds, self._seconds_left()))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    def _seconds_left(self) -> float:
        deadline = self._collection.deadline.ToDatetime(UTC)
        return (deadline - datetime.now(UTC)).total_seconds()

    async def _step(self) -> bool:
        """One look at everything; True once the collection is settled."""
        if self._finding is not None and self._finding.done():
            self._finding.result()  # a fault of ours: the collection is delivered again
        await self._note_discovered()
        for number in await self._fan_in.look():
            await self._note_missing(number)
        await self._stop_if_asked()
        await self._time_out_if_due()
        going = self._collection.state == collection_pb2.COLLECTION_STATE_RUNNING
        if going and await self._fan_out.begin_more():
            self._news.set()
        settled = await self._conclude()
        if not settled:
            await self._journal.save_sometimes()
        return settled

    async def _note_discovered(self) -> None:
        for _ in range(FOUND_AT_ONCE):
            if self._finding is None or self._discovery.discovered.empty():
                return
            match self._discovery.discovered.get_nowait():
                case Found() as found:
                    number = len(self._journal.ledger.members) + 1
                    await self._journal.tell_member(new_member(number, found))
                    self._fan_out.add(number)
                case Listed() as listed:
                    await self._note_listed(listed)
                case Exhausted():
                    await self._note_exhausted()
        self._news.set()

    async def _note_listed(self, listed: Listed) -> None:
        changed = self._copy()
        listing = changed.listings[listed.place]
        listing.complete, listing.found = True, listed.found
        if listed.failure is not None:
            listing.failure.CopyFrom(listed.failure)
        changed.discovery_complete = all(one.complete for one in changed.listings)
        await self._journal.tell(event_pb2.EVENT_TYPE_COLLECTION_CHANGED, changed)

    async def _note_exhausted(self) -> None:
        if not self._collection.discovery_complete:
            changed = self._copy()
            changed.discovery_complete = True
            await self._journal.tell(event_pb2.EVENT_TYPE_COLLECTION_CHANGED, changed)

    async def _note_missing(self, number: int) -> None:
        """Its job was deleted; or never made, because the last conductor died before that."""
        going = self._collection.state == collection_pb2.COLLECTION_STATE_RUNNING
        if self._fan_out.intends(number) and going:
            return
        member = self._journal.ledger.members[number - 1]
        await outlast(self._with.index.catch_up)
        if self._with.index.stored(member.job_id) is not None:
            return
        intended = self._fan_out.intends(number) or await self._fan_out.resume(member)
        if not intended:
            await self._journal.tell_member(ended(member, CANCELLED))
        elif going:
            return
        else:
            stopped = self._collection.state == collection_pb2.COLLECTION_STATE_CANCELLED
            state = CANCELLED if stopped else TIMED_OUT
            await self._journal.tell_member(never_begun(member, state))
        self._fan_out.drop(number)
        await self._fan_in.leave(number)

    async def _stop_if_asked(self) -> None:
        record = self._with.shelf.record(self._collection.collection_id)
        if record is None:
            raise LostError(self._collection.collection_id)
        cancelled = self._collection.state == collection_pb2.COLLECTION_STATE_CANCELLED
        replayed = cancelled and self._journal.ledger.reopened  # by somebody who wants it to run
        if not record.cancel_requested or replayed:
            return
        if not cancelled:
            changed = self._copy()
            changed.state = collection_pb2.COLLECTION_STATE_CANCELLED
            changed.cancel_note = record.collection.cancel_note
            await self._journal.tell(event_pb2.EVENT_TYPE_COLLECTION_CHANGED, changed)
        if self._stopping is None:
            await self._find_no_more()
            await self._end_unbegun(CANCELLED)
            jobs = self._fan_in.jobs.values()
            self._stopping = asyncio.create_task(
                stop_jobs(self._with.control, jobs, record.collection.cancel_note)
            )

    async def _time_out_if_due(self) -> None:
        due = self._collection.HasField("deadline") and self._seconds_left() <= 0
        if self._gathered or not due:
            return
        await self._find_no_more()
        self._fan_in.distrust()  # what ended in time has ended in time
        await self._fan_in.look()
        await self._end_unbegun(TIMED_OUT)
        for member in list(self._journal.ledger.members):
            if member.state in (PENDING, RUNNING):
                late = copy_of(member)
                late.state = TIMED_OUT
                await self._journal.tell_member(late)
        await self._gather()

    async def _find_no_more(self) -> None:
        if self._finding is not None:
            await stop(self._finding)
            self._finding = None

    async def _end_unbegun(self, state: "collection_pb2.MemberState.ValueType") -> None:
        for member in list(self._journal.ledger.members):
            if member.state == PENDING and not member.job_id:
                await self._journal.tell_member(ended(member, state))

    async def _conclude(self) -> bool:
        """Gathers when every member has ended, settles when none can change."""
        ledger = self._journal.ledger
        if not self._gathered:
            found = self._collection.discovery_complete or self._stopping is not None
            if not found or ledger.count(PENDING) or ledger.count(RUNNING):
                return False
            await self._gather()
        changed = self._copy()
        changed.state, changed.settled = self._journal.ledger.outcome, self._fan_in.in_flight == 0
        if changed.settled and not ledger.settled:
            await self._journal.tell(event_pb2.EVENT_TYPE_COLLECTION_SETTLED, changed)
        elif (changed.state, changed.settled) != (self._collection.state, self._collection.settled):
            await self._journal.tell(event_pb2.EVENT_TYPE_COLLECTION_CHANGED, changed)
        elif changed.settled:
            await self._journal.save()
        return changed.settled

    async def _gather(self) -> None:
        changed = self._copy()
        changed.state = self._journal.ledger.outcome
        changed.end_time.CopyFrom(from_current_time())
        await self._journal.tell(event_pb2.EVENT_TYPE_COLLECTION_GATHERED, changed)
        log.info("collection gathered", state=changed.state, members=changed.member_count)

    def _copy(self) -> collection_pb2.Collection:
        copied = collection_pb2.Collection()
        copied.CopyFrom(self._collection)
        return copied
