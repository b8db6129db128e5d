"""Subtasks: creates the tasks of one collection, follows them, and takes over what they find.

First the subtask goes into the event log with the id of its task, which refuses it if another
controller has taken over. Only then is the task accepted, once however often that is repeated. So a
crash in between leaves a subtask without a task, which the next controller makes up for.

At the deadline collectors are stopped, as listings are; what they found until then stays. Executors
go on, as members' jobs do, and may end late. Executors of the whole collection begin a margin
before the deadline, with what is there (docs/adr).
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeAlias

from google.protobuf.timestamp import from_current_time
from google.protobuf.timestamp_pb2 import Timestamp
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from structlog import get_logger

from mesh.bus import Bus, outlast
from mesh.correlation import new_id
from mesh.errors import MeshError
from mesh.reasons import Reason
from orchestrator.collections.discovery import Discovery
from orchestrator.collections.members import COMPLETED as MEMBER_COMPLETED
from orchestrator.collections.members import PENDING as MEMBER_PENDING
from orchestrator.collections.projection import CollectionEventWriter
from orchestrator.collections.sent_files import sent_file
from orchestrator.tasks.control import TaskControl
from orchestrator.tasks.log import collected
from orchestrator.tasks.records import CANCELLED, FAILED, OPEN, PENDING, TIMED_OUT
from orchestrator.tasks.records import ENDED as TASK_ENDED
from orchestrator.tasks.storage import TaskStorage
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, RoleId
from ytcaption.v1 import collection_pb2, event_pb2, task_pb2

log = get_logger(__name__)

ITEM = task_pb2.EXECUTOR_SCOPE_ITEM
WHOLE = task_pb2.EXECUTOR_SCOPE_COLLECTION
MAX_OPEN = 100
"""Subtasks for single items that wait or run at once."""
AGAIN_SECONDS = 1.0
"""Pause after a full or absent store: its recovery is not announced."""
STEP = 0.05
"""A subtask whose progress moved by this share changes; by less it does not."""
Target: TypeAlias = tuple[int, int, int]
"""What a subtask for an item is: the place of its executor, a member, a document."""


@dataclass(slots=True)
class _Open:
    """A task that may still change its subtask."""

    task_id: str
    subscription: Subscription
    cursor: int = 0
    """The sequence of the last item that was taken over."""
    documents: int = 0
    """Documents that were read since the beginning of its log."""
    seen: bytes | None = None
    moved: bool = True


class Subtasks:
    """The subtasks of one collection."""

    def __init__(  # noqa: PLR0913 # where tasks are, and what they become
        self,
        bus: Bus,
        tasks: TaskStorage,
        control: TaskControl,
        events: CollectionEventWriter,
        discovery: Discovery,
        *,
        max_items: int,
        wake: Callable[[], None],
    ) -> None:
        self._bus = bus
        self._tasks = tasks
        self._control = control
        self._events = events
        self._discovery = discovery
        self._max_items = max_items
        self._wake = wake
        self._open: dict[int, _Open] = {}
        self._uncreated: set[int] = set()
        """Subtasks whose task may not have been accepted yet."""
        self._not_before = float("-inf")
        self._looked_at: tuple[int, int] = (-1, -1)
        self._done: set[Target] = set()
        """Items that have their subtask."""
        documents = events.projection.documents
        self._known_documents = Counter(one.subtask for one in documents)

    @property
    def _collection(self) -> collection_pb2.Collection:
        return self._events.collection

    @property
    def _all(self) -> list[task_pb2.Subtask]:
        return self._events.projection.subtasks

    @property
    def in_flight(self) -> int:
        """Subtasks with a task that has not ended."""
        return len(self._open)

    @property
    def collectors_ended(self) -> bool:
        """Whether there is no collector that may still find something."""
        collectors = [one for one in self._all if one.role == COLLECTOR]
        created = len(collectors) == len(self._collection.source_specs)
        return created and not any(one.state in OPEN for one in collectors)

    @property
    def ended(self) -> bool:
        """Whether every subtask that was created has ended."""
        return not any(one.state in OPEN for one in self._all)

    async def open(self) -> None:
        """Follows the unfinished tasks of a collection that is resumed."""
        for subtask in self._all:
            if subtask.role == EXECUTOR:  # places of collectors are others
                self._done.add((subtask.spec, subtask.member, subtask.document))
            if _awaits_task(subtask):
                await self._follow(subtask)
                self._uncreated.add(subtask.number)

    async def close(self) -> None:
        """Unsubscribes from every task."""
        for number in list(self._open):
            await self._leave(number)

    async def _follow(self, subtask: task_pb2.Subtask) -> None:
        subject = self._bus.names.live(subtask.task_id, "event")
        subscription = await self._bus.client.subscribe(
            subject, cb=partial(self._on_live, subtask.number)
        )
        self._open[subtask.number] = _Open(subtask.task_id, subscription)

    async def _leave(self, number: int) -> None:
        there = self._open.pop(number)
        self._uncreated.discard(number)
        if not self._bus.client.is_closed:
            await there.subscription.unsubscribe()

    async def _on_live(self, number: int, message: Msg) -> None:
        if (there := self._open.get(number)) is None:
            return
        there.moved = True
        if event_pb2.Event.FromString(message.data).HasField("subtask_changed"):
            # The record is written before the last event of an attempt, and after the others.
            with suppress(MeshError):  # then it is read within a second
                await self._tasks.index.catch_up()
        self._wake()

    async def refresh(self) -> list[int]:
        """Appends what changed; returns the numbers of new members."""
        await self._find_revived()
        found: list[int] = []
        for number, there in list(self._open.items()):
            stored = self._tasks.index.stored(there.task_id)
            if stored is there.seen and not there.moved:
                continue
            # In this order: what was found is in the log before the record says that it ended.
            there.moved, there.seen = False, stored
            if self._takes_items(number):
                found += await self._take_items(number, there)
            if stored is not None:
                await self._note(number, task_pb2.TaskRecord.FromString(stored).task)
        return found

    def _takes_items(self, number: int) -> bool:
        subtask = self._all[number - 1]
        return subtask.role == COLLECTOR and subtask.state in OPEN

    async def _take_items(self, number: int, there: _Open) -> list[int]:
        found = []
        event_logs = self._tasks.jobs.event_logs
        async for sequence, item in collected(event_logs, there.task_id, there.cursor):
            there.cursor = sequence
            match item.WhichOneof("item"):
                case "document":
                    there.documents += 1
                    if there.documents > self._known_documents[number]:
                        await self._add_document(number, item.document)
                case "recording":
                    found += await self._add_member(item.recording)
                case "file":
                    found += await self._add_member(sent_file(number, item.file))
        return found

    async def _add_document(self, number: int, document: task_pb2.Document) -> None:
        projection = self._events.projection
        if len(projection.documents) >= self._max_items:
            return
        shown = deepcopy(document)
        shown.number, shown.subtask = len(projection.documents) + 1, number
        shown.ClearField("text")
        await self._events.append_document(shown)
        self._known_documents[number] += 1

    async def _add_member(self, found: collection_pb2.Member) -> list[int]:
        if not self._discovery.claim(found.source_url):
            return []
        member = deepcopy(found)
        member.number = len(self._events.projection.members) + 1
        member.state = MEMBER_PENDING
        await self._events.append_member(member)
        return [member.number]

    async def _note(self, number: int, task: task_pb2.Subtask) -> None:
        before = self._all[number - 1]
        deadline = self._collection.deadline if self._collection.HasField("deadline") else None
        changed = _updated(before, task, deadline)
        if changed is not None:
            await self._events.append_subtask(changed)
        if task.state in TASK_ENDED and number in self._open:
            await self._leave(number)

    async def _find_revived(self) -> None:
        """Follows tasks that failed and were replayed."""
        for subtask in self._all:
            if subtask.state == FAILED and subtask.number not in self._open:
                record = self._tasks.index.record(subtask.task_id)
                if record is not None and record.task.state != FAILED:
                    await self._follow(subtask)
                    revived = deepcopy(subtask)
                    revived.state = PENDING
                    for field in ("failure", "end_time", "progress", "late"):
                        revived.ClearField(field)
                    await self._events.append_subtask(revived)

    async def create_more(self) -> None:
        """Creates the tasks that can begin now, while there is capacity."""

        async def create() -> None:
            for number in sorted(self._uncreated):
                await self._accept(number)
            await self._create_collectors()
            await self._create_for_items()

        await self._while_possible(create)

    async def _while_possible(self, create: Callable[[], Awaitable[None]]) -> None:
        """Creates tasks; those that a full or absent store refuses wait a moment."""
        if monotonic() < self._not_before:
            return
        try:
            await create()
        except MeshError as error:
            if not (error.retryable or error.reason == Reason.STORAGE_FULL):
                raise
            log.warning("subtasks wait", error=str(error))
            self._not_before = monotonic() + AGAIN_SECONDS

    async def _create_collectors(self) -> None:
        there = {one.spec for one in self._all if one.role == COLLECTOR}
        for place, spec in enumerate(self._collection.source_specs, 1):
            if place not in there:
                subtask = task_pb2.Subtask(type=spec.type, parameters=spec.parameters, spec=place)
                await self._create(COLLECTOR, subtask)

    @property
    def items_served(self) -> bool:
        """Whether every item that is there has its subtasks."""
        return not self._specs(ITEM) or not any(True for _ in self._unserved())

    def _specs(self, scope: "task_pb2.ExecutorScope.ValueType") -> list[int]:
        executors = enumerate(self._collection.executors, 1)
        return [place for place, spec in executors if spec.scope == scope]

    def _unserved(self) -> "list[Target]":
        projection = self._events.projection
        numbers = [one.number for one in projection.members if one.state == MEMBER_COMPLETED]
        targets = [(number, 0) for number in numbers]
        targets += [(0, one.number) for one in projection.documents]
        return [
            (place, *target)
            for target in targets
            for place in self._specs(ITEM)
            if (place, *target) not in self._done
        ]

    async def _create_for_items(self) -> None:
        if not self._specs(ITEM):
            return
        projection = self._events.projection
        now = projection.count(MEMBER_COMPLETED), len(projection.documents)
        if now == self._looked_at:
            return
        for place, member, document in self._unserved():
            if len(self._open) >= MAX_OPEN:
                return  # and looks again when one has ended
            await self._create_executor(place, member, document)
        self._looked_at = now

    async def begin_whole(self) -> None:
        """Creates the subtasks of executors that get the whole collection."""

        async def create() -> None:
            for place in self._specs(WHOLE):
                if (place, 0, 0) not in self._done:
                    await self._create_executor(place, 0, 0)

        await self._while_possible(create)

    @property
    def whole_begun(self) -> bool:
        """Whether these were created."""
        return all((place, 0, 0) in self._done for place in self._specs(WHOLE))

    async def _create_executor(self, place: int, member: int, document: int) -> None:
        await self._create(EXECUTOR, self._planned(place, member, document))

    def _planned(self, place: int, member: int, document: int) -> task_pb2.Subtask:
        """The subtask of an executor, which is noted as made."""
        spec = self._collection.executors[place - 1]
        self._done.add((place, member, document))
        return task_pb2.Subtask(
            type=spec.kind,
            parameters=spec.parameters,
            spec=place,
            member=member,
            document=document,
        )

    async def _create(self, role: RoleId, subtask: task_pb2.Subtask) -> None:
        subtask.task_id, subtask.number = new_id(), len(self._all) + 1
        subtask.role, subtask.state = role, PENDING
        await self._events.append_subtask(subtask)
        await self._follow(subtask)
        self._uncreated.add(subtask.number)
        await self._accept(subtask.number)

    async def _accept(self, number: int) -> None:
        subtask, collection = self._all[number - 1], self._collection
        if self._tasks.index.stored(subtask.task_id) is None:
            await self._tasks.accept(
                task_pb2.TaskRecord(
                    task=subtask,
                    collection_id=collection.collection_id,
                    correlation_id=collection.correlation_id,
                    owner=collection.owner,
                    group=collection.group,
                    from_date=collection.from_date,
                    to_date=collection.to_date,
                    max_items=self._max_items,
                )
            )
        self._uncreated.discard(number)

    async def time_out(self) -> None:
        """The time is up: what has not ended is TIMED_OUT; collectors stop, executors go on.

        So is what should have begun for an item that is there: its result is missing, too.
        """
        for subtask in list(self._all):
            if subtask.state in OPEN:
                late = deepcopy(subtask)
                late.state = TIMED_OUT
                await self._events.append_subtask(late)
        for target in self._unserved() if self._specs(ITEM) else ():
            missed = self._planned(*target)
            missed.task_id, missed.number = new_id(), len(self._all) + 1
            missed.role, missed.state = EXECUTOR, TIMED_OUT
            missed.end_time.CopyFrom(from_current_time())
            await self._events.append_subtask(missed)

    async def end_late(self) -> None:
        """After the deadline: stops collectors, until they have ended, and begins nothing more."""
        await self._end_uncreated()
        for number, there in list(self._open.items()):
            subtask = self._all[number - 1]
            if subtask.role == COLLECTOR and subtask.state == TIMED_OUT:
                await self._cancel(there.task_id)

    async def cancel(self) -> None:
        """Stops every task; those that were not accepted yet end at once."""
        await self._end_uncreated()
        for there in list(self._open.values()):
            await self._cancel(there.task_id)

    async def _end_uncreated(self) -> None:
        """Ends subtasks whose task was never accepted."""
        if self._uncreated:
            await outlast(self._tasks.index.catch_up)
        for number in sorted(self._uncreated):
            subtask = self._all[number - 1]
            if self._tasks.index.stored(subtask.task_id) is None:
                await self._end(subtask, TIMED_OUT if subtask.state == TIMED_OUT else CANCELLED)
            self._uncreated.discard(number)

    async def _cancel(self, task_id: str) -> None:
        with suppress(MeshError):  # asked again
            await self._control.cancel(task_id)

    async def _end(
        self, subtask: task_pb2.Subtask, state: "task_pb2.SubtaskState.ValueType"
    ) -> None:
        """Ends a subtask whose task does not exist."""
        ended = deepcopy(subtask)
        ended.state = state
        ended.end_time.CopyFrom(from_current_time())
        await self._events.append_subtask(ended)
        await self._leave(subtask.number)


def _awaits_task(subtask: task_pb2.Subtask) -> bool:
    """Whether the subtask has a task that may still change it."""
    unended = subtask.state == TIMED_OUT and not subtask.HasField("end_time")
    return subtask.state in OPEN or unended


def _updated(
    subtask: task_pb2.Subtask, task: task_pb2.Subtask, deadline: Timestamp | None
) -> task_pb2.Subtask | None:
    """The subtask as its task has it; None if no event is needed."""
    changed = deepcopy(task)
    changed.number, changed.late = subtask.number, False
    if task.state in TASK_ENDED:
        changed.late = deadline is not None and _after(task.end_time, deadline)
        stopped = subtask.state == TIMED_OUT and task.state == CANCELLED
        if stopped or (subtask.state == TIMED_OUT and task.role == COLLECTOR):
            changed.state, changed.late = TIMED_OUT, False
            changed.ClearField("failure")
    elif subtask.state == TIMED_OUT:  # until the task ends
        return None
    before = subtask.state, subtask.attempt, subtask.late, subtask.HasField("end_time")
    after = changed.state, changed.attempt, changed.late, changed.HasField("end_time")
    moved = changed.progress - subtask.progress >= STEP
    return changed if before != after or moved else None


def _after(moment: Timestamp, deadline: Timestamp) -> bool:
    return bool(moment.ToNanoseconds() > deadline.ToNanoseconds())
