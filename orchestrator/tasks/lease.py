"""The lease of a task: one worker's right to write one attempt. A lost lease writes nothing."""

import asyncio

from mesh.bus import outlast
from mesh.correlation import new_id
from orchestrator.jobs.lease import LostError
from orchestrator.jobs.store import ConflictError
from orchestrator.tasks.records import TaskStore, VersionedTask
from ytcaption.v1 import task_pb2


class TaskLease:
    """Writes the record as long as this attempt owns it."""

    def __init__(self, tasks: TaskStore, versioned: VersionedTask) -> None:
        self._tasks = tasks
        self._versioned = versioned
        self._turn = asyncio.Lock()
        self.runner_id = new_id()
        """Names this attempt's owner."""
        self.cancel_requested = asyncio.Event()

    @property
    def record(self) -> task_pb2.TaskRecord:
        """The record; change it, then save()."""
        return self._versioned.record

    @property
    def task(self) -> task_pb2.Subtask:
        """The task within the record."""
        return self._versioned.task

    async def take(self) -> None:
        """Takes the task, as changed; ConflictError if another worker was faster."""
        self.record.runner_id = self.runner_id
        await self._tasks.save(self._versioned)
        self._notice_cancel()

    async def save(self) -> None:
        """Stores the record; LostError if this attempt no longer owns the task."""
        async with self._turn:
            while True:
                try:
                    return await outlast(lambda: self._tasks.save(self._versioned))
                except ConflictError:
                    await self._reconcile()

    async def _reconcile(self) -> None:
        """After a conflicting write: a cancel request leaves the lease intact, all else ends it."""
        newest = await outlast(lambda: self._tasks.get(self.task.task_id))
        if newest.record.runner_id != self.runner_id:
            raise LostError(self.task.task_id)
        self._versioned.revision = newest.revision
        self.record.cancel_requested = newest.record.cancel_requested
        self._notice_cancel()

    def _notice_cancel(self) -> None:
        if self.record.cancel_requested:
            self.cancel_requested.set()
