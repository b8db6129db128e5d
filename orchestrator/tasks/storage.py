"""Everything stored of tasks, and how they are accepted and end."""

from dataclasses import dataclass

from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.bus import Bus, outlast
from mesh.errors import NotFoundError
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import ConflictError
from orchestrator.tasks.lease import TaskLease
from orchestrator.tasks.queue import TaskQueue
from orchestrator.tasks.records import FAILED, PENDING, SubtaskStateId, TaskIndex, TaskStore
from ytcaption.v1 import event_pb2, job_pb2, task_pb2

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TaskStorage:
    """The stores of tasks on one broker connection."""

    jobs: JobStorage
    """Event logs, artifacts and dead letters are the same as those of jobs."""
    records: TaskStore
    queue: TaskQueue
    index: TaskIndex

    @property
    def bus(self) -> Bus:
        """The connection."""
        return self.jobs.bus

    async def accept(self, record: task_pb2.TaskRecord) -> None:
        """Returns once the task cannot be lost; repeated, it is accepted once."""
        # The item first: a worker that finds no record waits, then drops it. The other way round,
        # a failure in between would leave a task that waits for ever.
        await self.queue.put(record.task)
        record.task.state = PENDING
        record.create_time.CopyFrom(from_current_time())
        try:
            await self.records.create(record)
        except ConflictError:  # an earlier controller of the collection did
            return
        log.info("task accepted", task_id=record.task.task_id, type=record.task.type)

    async def enqueue(self, task_id: str) -> bool:
        """Puts the task's item, unless it has ended, was deleted or has one by now."""
        try:
            versioned = await self.records.get(task_id)
        except NotFoundError:
            return False
        return not versioned.ended and await self.queue.put(versioned.task)

    async def end(self, lease: TaskLease, event_log: EventLogWriter, state: SubtaskStateId) -> None:
        """Ends a task: an end in its event log is always in the record, too."""
        lease.task.state = state
        lease.task.end_time.CopyFrom(from_current_time())
        # First of all: after a crash the next worker only completes the event log.
        await lease.save()
        await self.complete(lease.record, event_log)

    async def complete(self, record: task_pb2.TaskRecord, event_log: EventLogWriter) -> None:
        """Does what follows from a record that has ended; repeated after a crash."""
        if record.task.state == FAILED:
            letter = _letter(record)
            await outlast(lambda: self.jobs.dead_letters.add_newest(letter))
        changed = event_pb2.SubtaskChanged(subtask=record.task)
        await event_log.append(subtask_changed=changed)
        state = task_pb2.SubtaskState.Name(record.task.state)
        log.info("task ended", task_id=record.task.task_id, type=record.task.type, state=state)


def _letter(record: task_pb2.TaskRecord) -> job_pb2.DeadLetter:
    task = record.task
    return job_pb2.DeadLetter(
        kind=job_pb2.LETTER_KIND_TASK,
        letter_id=task.task_id,
        collection_id=record.collection_id,
        correlation_id=record.correlation_id,
        failure=task.failure,
        attempts=task.attempt,
        first_attempt_time=record.start_time,
        dead_time=task.end_time,
        owner=record.owner,
        group=record.group,
    )
