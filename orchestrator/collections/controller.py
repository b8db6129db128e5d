"""The collection controller: finds members, creates their jobs, gathers the results."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime

from google.protobuf.timestamp import from_current_time
from nats.aio.msg import Msg
from structlog import get_logger

from mesh.bus import outlast
from mesh.errors import MeshError, NotFoundError
from mesh.messages import enum_word
from mesh.tasks import map_concurrently, stop
from orchestrator.collections.discovery import Discovery, Listed
from orchestrator.collections.fan_in import FanIn
from orchestrator.collections.fan_out import FanOut
from orchestrator.collections.index import CollectionIndex
from orchestrator.collections.members import (
    CANCELLED,
    PENDING,
    RUNNING,
    TIMED_OUT,
    MemberStateId,
    ended,
    never_begun,
)
from orchestrator.collections.projection import CollectionEventWriter, Projection
from orchestrator.collections.records import CollectionStore, VersionedCollection
from orchestrator.collections.sent_files import SentFiles
from orchestrator.collections.subtasks import Subtasks
from orchestrator.jobs.control import JobControl
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.lease import LostError
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.submission import Submission
from orchestrator.metrics import COLLECTIONS_GATHERED
from orchestrator.queue.capacity import Capacity
from orchestrator.tasks.control import TaskControl
from orchestrator.tasks.listing import Lister
from orchestrator.tasks.storage import TaskStorage
from ytcaption.v1 import collection_pb2, event_pb2

log = get_logger(__name__)

LOOK_SECONDS = 1.0
"""A change that no message announced is found within this."""
FOUND_AT_ONCE = 10
"""Members that are added before the next jobs are created."""
STOPS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The collaborators every controller shares; built once in wiring."""

    storage: JobStorage
    records: CollectionStore
    index: CollectionIndex
    job_index: JobIndex
    submission: Submission
    control: JobControl
    capacity: Capacity
    lister: Lister
    tasks: TaskStorage
    task_control: TaskControl
    sent_files: SentFiles
    executor_margin_seconds: float


class CollectionController:
    """Runs one collection, from where the last controller left it until it is settled."""

    def __init__(
        self, dependencies: Dependencies, versioned: VersionedCollection, projection: Projection
    ) -> None:
        self._dependencies = dependencies
        self._events = CollectionEventWriter(
            dependencies.storage.bus, dependencies.records, versioned, projection
        )
        self._wake = asyncio.Event()
        self._fan_in = FanIn(
            dependencies.storage.bus, self._events, dependencies.job_index, self._wake.set
        )
        self._fan_out = FanOut(
            self._events,
            self._fan_in,
            dependencies.submission,
            dependencies.capacity,
            dependencies.sent_files,
        )
        self._discovery = Discovery(
            dependencies.lister,
            projection,
            max_members=versioned.record.max_members,
            wake=self._wake.set,
        )
        self._subtasks = Subtasks(
            dependencies.storage.bus,
            dependencies.tasks,
            dependencies.task_control,
            self._events,
            self._discovery,
            max_items=versioned.record.max_members,
            wake=self._wake.set,
        )
        self._listed = self._collection.discovery_complete
        """Whether every source was listed; collectors may still find more."""
        self._discovering: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._revived = self._gathered and any(
            member.state == PENDING and not member.job_id for member in projection.members
        )
        """Whether a collector that was replayed has found members since the gathering."""

    @property
    def _collection(self) -> collection_pb2.Collection:
        return self._events.collection

    @property
    def _gathered(self) -> bool:
        return self._collection.HasField("end_time")

    async def run(self) -> None:
        """Returns once the collection is settled: nothing of it can change any more."""

        async def on_cancel(_: Msg) -> None:
            self._fan_in.mark_stale()
            self._wake.set()

        bus = self._dependencies.storage.bus
        async with bus.subscribed(bus.names.cancel(self._collection.collection_id), on_cancel):
            try:
                await self._fan_in.open()
                await self._subtasks.open()
                if not self._gathered and not self._collection.discovery_complete:
                    self._discovering = asyncio.create_task(self._discovery.run())
                while not await self._step():
                    await self._until_woken()
            finally:
                await stop(*(task for task in (self._discovering, self._stopping) if task))
                await self._fan_in.close()
                await self._subtasks.close()

    async def _until_woken(self) -> None:
        seconds = LOOK_SECONDS
        if not self._gathered and self._collection.HasField("deadline"):
            left = self._seconds_left()
            if not self._subtasks.whole_begun:
                left = min(left, max(left - self._margin_seconds(), 0.0) or left)
            seconds = max(0.0, min(seconds, left))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _seconds_left(self) -> float:
        deadline = self._collection.deadline.ToDatetime(UTC)
        return (deadline - datetime.now(UTC)).total_seconds()

    def _margin_seconds(self) -> float:
        """How long before the deadline executors of the whole collection begin at the latest."""
        total = self._events.projection.request.timeout.ToMilliseconds() / 1000
        return min(self._dependencies.executor_margin_seconds, total / 4)

    async def _step(self) -> bool:
        """One pass over everything; True once the collection is settled."""
        if self._discovering is not None and self._discovering.done():
            self._discovering.result()  # a fault of ours: the collection is delivered again
        await self._add_discovered()
        for number in await self._fan_in.refresh():
            await self._handle_missing(number)
        await self._follow_subtasks()
        await self._stop_if_asked()
        await self._time_out_if_due()
        going = self._collection.state == collection_pb2.COLLECTION_STATE_RUNNING
        if going:
            await self._subtasks.create_more()
            await self._begin_whole_if_due()
        elif self._gathered and self._collection.state != collection_pb2.COLLECTION_STATE_CANCELLED:
            await self._subtasks.end_late()
        if (going or self._revived) and await self._fan_out.create_more():
            self._wake.set()
        settled = await self._conclude()
        if not settled:
            await self._events.save_sometimes()
        return settled

    async def _follow_subtasks(self) -> None:
        for number in await self._subtasks.refresh():
            self._fan_out.add(number)
            self._revived = self._revived or self._gathered
            self._wake.set()
        if self._listed and not self._collection.discovery_complete:
            await self._end_discovery()

    async def _end_discovery(self) -> None:
        """Sources are listed; there is nothing more to find once collectors have ended, too."""
        self._listed = True
        if self._subtasks.collectors_ended and not self._collection.discovery_complete:
            changed = deepcopy(self._collection)
            changed.discovery_complete = True
            await self._append_changed(changed)

    async def _begin_whole_if_due(self) -> None:
        """Executors of the whole collection begin when all has ended, or the time is nearly up."""
        if self._subtasks.whole_begun or self._gathered:
            return
        near = self._collection.HasField("deadline") and (
            self._seconds_left() <= self._margin_seconds()
        )
        if near or self._all_collected:
            await self._subtasks.begin_whole()

    @property
    def _all_collected(self) -> bool:
        """Whether every source, collector and member has ended."""
        projection = self._events.projection
        ended = not projection.count(PENDING) and not projection.count(RUNNING)
        return ended and self._collection.discovery_complete

    async def _add_discovered(self) -> None:
        for _ in range(FOUND_AT_ONCE):
            if self._discovering is None or self._discovery.discovered.empty():
                return
            match self._discovery.discovered.get_nowait():
                case collection_pb2.Member() as member:
                    member.number = len(self._events.projection.members) + 1
                    await self._events.append_member(member)
                    self._fan_out.add(member.number)
                case Listed() as listed:
                    await self._append_listing(listed)
                case None:
                    await self._end_discovery()
        self._wake.set()

    async def _append_listing(self, listed: Listed) -> None:
        changed = deepcopy(self._collection)
        listing = changed.listings[listed.place]
        listing.complete, listing.found = True, listed.found
        if listed.failure is not None:
            listing.failure.CopyFrom(listed.failure)
        self._listed = all(one.complete for one in changed.listings)
        changed.discovery_complete = self._listed and self._subtasks.collectors_ended
        await self._append_changed(changed)

    async def _append_changed(self, changed: collection_pb2.Collection) -> None:
        await self._events.append_collection(event_pb2.EVENT_TYPE_COLLECTION_CHANGED, changed)

    async def _handle_missing(self, number: int) -> None:
        """Its job was deleted; or never created, because the last controller died before that."""
        going = self._collection.state == collection_pb2.COLLECTION_STATE_RUNNING
        if self._fan_out.intends(number) and going:
            return
        member = self._events.projection.members[number - 1]
        await outlast(self._dependencies.job_index.catch_up)
        if self._dependencies.job_index.stored(member.job_id) is not None:
            return
        if not (self._fan_out.intends(number) or await self._fan_out.resume(member)):
            await self._events.append_member(ended(member, CANCELLED))
        elif going:
            return
        else:
            stopped = self._collection.state == collection_pb2.COLLECTION_STATE_CANCELLED
            state = CANCELLED if stopped else TIMED_OUT
            await self._events.append_member(never_begun(member, state))
        self._fan_out.drop(number)
        await self._fan_in.leave(number)

    async def _stop_if_asked(self) -> None:
        record = self._dependencies.index.record(self._collection.collection_id)
        if record is None:
            raise LostError(self._collection.collection_id)
        cancelled = self._collection.state == collection_pb2.COLLECTION_STATE_CANCELLED
        replayed = cancelled and self._events.projection.reopened  # a replay is meant to run
        if not record.cancel_requested or replayed:
            return
        if not cancelled:
            changed = deepcopy(self._collection)
            changed.state = collection_pb2.COLLECTION_STATE_CANCELLED
            changed.cancel_note = record.collection.cancel_note
            await self._append_changed(changed)
        if self._stopping is None:
            await self._stop_discovery()
            await self._end_pending(CANCELLED)
            jobs = self._fan_in.jobs.values()
            self._stopping = asyncio.create_task(
                _cancel_jobs(self._dependencies.control, jobs, record.collection.cancel_note)
            )
        await self._subtasks.cancel()

    async def _time_out_if_due(self) -> None:
        due = self._collection.HasField("deadline") and self._seconds_left() <= 0
        if self._gathered or not due:
            return
        await self._begin_whole_if_due()
        await self._stop_discovery()
        self._fan_in.mark_stale()  # a job that ended in time counts as such
        await self._fan_in.refresh()
        await self._subtasks.refresh()
        await self._subtasks.time_out()
        await self._end_pending(TIMED_OUT)
        for member in list(self._events.projection.members):
            if member.state in (PENDING, RUNNING):
                late = deepcopy(member)
                late.state = TIMED_OUT
                await self._events.append_member(late)
        await self._gather()

    async def _stop_discovery(self) -> None:
        if self._discovering is not None:
            await stop(self._discovering)
            self._discovering = None

    async def _end_pending(self, state: MemberStateId) -> None:
        for member in list(self._events.projection.members):
            if member.state == PENDING and not member.job_id:
                await self._events.append_member(ended(member, state))

    async def _conclude(self) -> bool:
        """Gathers when every member has ended, settles when none can change."""
        projection = self._events.projection
        if not self._gathered:
            stopped = self._stopping is not None
            found = self._collection.discovery_complete or stopped
            if not found or projection.count(PENDING) or projection.count(RUNNING):
                return False
            if not self._subtasks.ended or not (stopped or self._subtasks_done):
                return False
            await self._gather()
        changed = deepcopy(self._collection)
        in_flight = self._fan_in.in_flight + self._subtasks.in_flight
        waiting = self._revived and projection.count(PENDING)
        changed.state, changed.settled = projection.outcome, not in_flight and not waiting
        if changed.settled and not projection.settled:
            await self._events.append_collection(event_pb2.EVENT_TYPE_COLLECTION_SETTLED, changed)
        elif (changed.state, changed.settled) != (self._collection.state, self._collection.settled):
            await self._append_changed(changed)
        elif changed.settled:
            await self._events.save()
        return changed.settled

    @property
    def _subtasks_done(self) -> bool:
        """Whether no more subtasks are to be created."""
        return self._subtasks.items_served and self._subtasks.whole_begun

    async def _gather(self) -> None:
        changed = deepcopy(self._collection)
        changed.state = self._events.projection.outcome
        changed.end_time.CopyFrom(from_current_time())
        await self._events.append_collection(event_pb2.EVENT_TYPE_COLLECTION_GATHERED, changed)
        COLLECTIONS_GATHERED.labels(enum_word(collection_pb2.CollectionState, changed.state)).inc()
        log.info("collection gathered", state=changed.state, members=changed.member_count)


async def _cancel_jobs(control: JobControl, job_ids: Iterable[str], note: str) -> None:
    """Cancels jobs; one whose runner does not answer stops when it sees the request."""

    async def cancel(job_id: str) -> None:
        try:
            await control.cancel(job_id, note)
        except NotFoundError:  # deleted, or never created
            return
        except MeshError as error:
            log.warning("a member does not stop yet", job_id=job_id, error=str(error))

    await map_concurrently(cancel, job_ids, at_once=STOPS_AT_ONCE)
