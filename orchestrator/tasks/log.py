"""The event log of a task: what earlier attempts found and stored."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from orchestrator.jobs.event_log import EventLogReader
from orchestrator.tasks.records import ENDED
from ytcaption.v1 import event_pb2


@dataclass(slots=True)
class TaskLog:
    """Where a new attempt resumes."""

    last_sequence: int = 0
    keys: set[str] = field(default_factory=set)
    """Of everything found so far; found again it is dropped."""
    files: int = 0
    size: int = 0
    """Bytes of the documents and files found so far."""
    finished: bool = False
    """The log has the end of the task."""

    def note(self, sequence: int, event: event_pb2.Event) -> None:
        """Takes one event in."""
        self.last_sequence = sequence
        self.finished = (
            event.HasField("subtask_changed") and event.subtask_changed.subtask.state in ENDED
        )
        if event.HasField("item_collected"):
            item = event.item_collected
            self.keys.add(item.key)
            self.files += item.HasField("file")
            self.size += item.file.size_bytes + len(item.document.text.encode())


async def read_task_log(
    event_logs: EventLogReader, task_id: str, *, patience_seconds: float = 0
) -> TaskLog:
    """Reads the whole log once."""
    log = TaskLog()
    async for sequence, event in event_logs.events(task_id, patience_seconds=patience_seconds):
        log.note(sequence, event)
    return log


async def collected(
    event_logs: EventLogReader, task_id: str, after: int = 0
) -> AsyncGenerator[tuple[int, event_pb2.ItemCollected], None]:
    """What a task found, in the order in which it was stored, with its sequence."""
    async for sequence, event in event_logs.events(task_id, after):
        if event.HasField("item_collected"):
            yield sequence, event.item_collected
