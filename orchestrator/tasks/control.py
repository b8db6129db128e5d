"""Cancels, fails, revives and deletes tasks, on request of their collection and of operators."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from structlog import get_logger

from mesh.errors import MeshError, NotFoundError, UnavailableError
from mesh.reasons import Reason
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.lease import LostError
from orchestrator.jobs.store import ConflictError, UnreadableError
from orchestrator.pipeline.stages import failure_of
from orchestrator.tasks.exchange import ANSWER, Exchange
from orchestrator.tasks.lease import TaskLease
from orchestrator.tasks.log import read_task_log
from orchestrator.tasks.records import CANCELLED, FAILED, PENDING, VersionedTask
from orchestrator.tasks.storage import TaskStorage
from ytcaption.v1 import job_pb2, task_pb2

log = get_logger(__name__)

STOP_SECONDS = 20.0
"""A dead worker's task is delivered again, and ended, within this time."""
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TaskControl:
    """Changes tasks from outside of their attempts."""

    storage: TaskStorage
    exchange: Exchange
    on_revived: Callable[[str], Awaitable[object]]
    """Takes the id of the collection whose task runs again."""

    async def cancel(self, task_id: str) -> None:
        """Ends a task that waits; asks the worker of one that runs, which ends it in a moment."""

        def ask(record: task_pb2.TaskRecord) -> bool:
            if record.task.state not in (PENDING, task_pb2.SUBTASK_STATE_RUNNING):
                return False
            changed = not record.cancel_requested
            record.cancel_requested = True
            return changed

        try:
            versioned = await self.storage.records.change(task_id, ask)
        except NotFoundError:  # never created, or deleted
            return
        if versioned.task.state == PENDING and await self._end(versioned, CANCELLED):
            return
        if not versioned.ended:
            bus = self.storage.bus
            await bus.client.publish(bus.names.cancel(task_id))

    async def fail(self, task_id: str, error: MeshError) -> None:
        """Fails a task that no worker will run any more; a worker that runs it loses its lease."""
        try:
            versioned = await self.storage.records.get(task_id)
        except (NotFoundError, UnreadableError):
            return
        if not versioned.ended:
            versioned.task.failure.CopyFrom(failure_of(error, attempt=versioned.task.attempt))
            await self._end(versioned, FAILED)

    async def _end(
        self, versioned: VersionedTask, state: "task_pb2.SubtaskState.ValueType"
    ) -> bool:
        """Ends a task no worker has, unless a worker takes it meanwhile."""
        storage, lease = self.storage, TaskLease(self.storage.records, versioned)
        seen = await read_task_log(storage.jobs.event_logs, versioned.id)
        try:
            await lease.take()
            await self.exchange.withdraw(lease.record)
            event_log = EventLogWriter(storage.bus, lease.record, seen.last_sequence)
            await storage.end(lease, event_log, state)
        except (ConflictError, LostError):
            return False
        await storage.queue.withdraw(versioned.id)
        return True

    async def revive(self, letter: job_pb2.DeadLetter) -> None:
        """Runs a task that failed once more; repeated, it runs once."""

        def begin_again(record: task_pb2.TaskRecord) -> bool:
            task = record.task
            if task.state != FAILED or task.attempt != letter.attempts:
                return False
            task.state, record.failures = PENDING, 0
            record.earlier_attempts, record.cancel_requested = task.attempt, False
            record.runner_id = ""
            for field in ("failure", "end_time", "progress", "late"):
                task.ClearField(field)
            return True

        # An answer that could not be taken would not be taken again.
        await self.storage.jobs.artifacts.drop(letter.letter_id, ANSWER)
        try:
            await self.storage.records.change(letter.letter_id, begin_again)
        except NotFoundError as error:
            raise NotFoundError(
                f"no dead letter of {letter.letter_id[:64]!r}", reason=Reason.DEAD_LETTER_NOT_FOUND
            ) from error
        # The reconciler does it if we die here.
        await self.storage.enqueue(letter.letter_id)
        await self.on_revived(letter.collection_id)

    async def until_ended(self, task_id: str) -> VersionedTask:
        """The task once it has ended; it was asked to."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                while True:
                    versioned = await self.storage.records.get(task_id)
                    if versioned.ended:
                        return versioned
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError as error:
            raise UnavailableError(
                "the task's worker does not answer; it will be stopped when it does",
                reason=Reason.STAGE_UNAVAILABLE,
            ) from error

    async def delete(self, task_id: str) -> int:
        """Removes everything stored of a task; one that runs is cancelled. Returns its files."""
        try:
            await self.cancel(task_id)
            record = (await self.until_ended(task_id)).record
        except UnreadableError:
            record = task_pb2.TaskRecord(task=task_pb2.Subtask(task_id=task_id))
        except NotFoundError:
            return 0
        bus, names, jobs = self.storage.bus, self.storage.bus.names, self.storage.jobs
        await self.storage.queue.withdraw(task_id)
        await self.exchange.withdraw(record)
        files = [
            await jobs.artifacts.drop(task_id, name) for name in (*record.stored_names, ANSWER)
        ]
        await bus.purge(names.events_stream, names.event(task_id, "*"))
        await bus.purge(names.dead_letter_stream, names.dead_letter(task_id))
        await self.storage.records.remove(task_id)
        return sum(files)

    async def delete_of(self, collection_id: str) -> int:
        """Removes all tasks of a collection; returns the number of their files."""
        return sum([await self.delete(one) for one in await self.storage.index.of(collection_id)])
