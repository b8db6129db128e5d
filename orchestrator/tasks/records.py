"""The records of tasks, in the bucket of jobs under keys of their own, and their index."""

from collections import defaultdict
from typing import TypeAlias

from mesh.reasons import Reason
from orchestrator.jobs.index import JobIndex, RecordTable
from orchestrator.jobs.store import RecordStore, Versioned
from orchestrator.tasks.types import RoleId
from ytcaption.v1 import task_pb2

ROOT = "task"
"""Keys of the bucket begin with this, and a dot."""

SubtaskStateId: TypeAlias = "task_pb2.SubtaskState.ValueType"
PENDING = task_pb2.SUBTASK_STATE_PENDING
RUNNING = task_pb2.SUBTASK_STATE_RUNNING
COMPLETED = task_pb2.SUBTASK_STATE_COMPLETED
FAILED = task_pb2.SUBTASK_STATE_FAILED
TIMED_OUT = task_pb2.SUBTASK_STATE_TIMED_OUT
CANCELLED = task_pb2.SUBTASK_STATE_CANCELLED
OPEN = frozenset({PENDING, RUNNING})
ENDED = frozenset({COMPLETED, FAILED, CANCELLED})
"""Of a task. A subtask whose collection is over may be TIMED_OUT besides."""


class VersionedTask(Versioned[task_pb2.TaskRecord]):
    """A task's record and the revision it was read or written at."""

    @property
    def id(self) -> str:
        """The task's id."""
        return self.record.task.task_id

    @property
    def task(self) -> task_pb2.Subtask:
        """The task as its collection shows it."""
        return self.record.task

    @property
    def ended(self) -> bool:
        """Whether the task can no longer change, unless it is replayed."""
        return self.task.state in ENDED

    @property
    def entity(self) -> task_pb2.TaskRecord:
        """The record names the owner itself."""
        return self.record


class TaskStore(RecordStore[task_pb2.TaskRecord, VersionedTask]):
    """Reads and writes the records of tasks."""

    root = f"{ROOT}."
    requests = f"{ROOT}-request."
    what = "task"
    missing = Reason.JOB_NOT_FOUND
    record = task_pb2.TaskRecord
    versioned = VersionedTask


class TaskTable(RecordTable[SubtaskStateId]):
    """Tasks by state, and by their collection."""

    def __init__(self) -> None:
        super().__init__()
        self._collections: dict[str, str] = {}
        self._of: defaultdict[str, set[str]] = defaultdict(set)

    def _read(self, id_: str, data: bytes, revision: int) -> SubtaskStateId:
        record = task_pb2.TaskRecord.FromString(data)
        self._owners[id_] = (record.owner, record.group)
        self._collections[id_] = record.collection_id
        self._of[record.collection_id].add(id_)
        return record.task.state

    def remove(self, id_: str) -> None:
        """Removes a task, if it is there."""
        super().remove(id_)
        collection_id = self._collections.pop(id_, "")
        self._of[collection_id].discard(id_)
        if not self._of[collection_id]:
            del self._of[collection_id]

    def of(self, collection_id: str) -> list[str]:
        """The ids of a collection's tasks, oldest first."""
        return sorted(self._of.get(collection_id, ()))


class TaskIndex:
    """Tasks as last read from the bucket; the job index feeds it."""

    def __init__(self, index: JobIndex) -> None:
        self._table = TaskTable()
        self.catch_up = index.catch_up
        """Reads everything acknowledged before the call."""
        self.stored = self._table.stored
        """A task's record as last read; the same object until it changes."""
        index.also_read(ROOT, self._table.apply)

    def record(self, task_id: str) -> task_pb2.TaskRecord | None:
        """A record as last read; None if there was none."""
        data = self._table.stored(task_id)
        return task_pb2.TaskRecord.FromString(data) if data else None

    async def unfinished(self) -> set[str]:
        """The ids of tasks that a worker must still run."""
        await self.catch_up()
        return self._table.ids(OPEN)

    async def of(self, collection_id: str) -> list[str]:
        """The ids of a collection's tasks, oldest first."""
        await self.catch_up()
        return self._table.of(collection_id)

    async def ids(self) -> set[str]:
        """The ids of all tasks."""
        await self.catch_up()
        return self._table.ids()

    async def owned(self, owner: str) -> list[str]:
        """The ids of an owner's tasks, oldest first."""
        await self.catch_up()
        return self._table.owned(owner)

    def running(self, role: RoleId, type_: str) -> int:
        """Tasks of a type that run, as last read."""
        ids = self._table.ids([RUNNING])
        return sum(self._is_of(one, role, type_) for one in ids)

    def _is_of(self, task_id: str, role: RoleId, type_: str) -> bool:
        record = self.record(task_id)
        return record is not None and (record.task.role, record.task.type) == (role, type_)
