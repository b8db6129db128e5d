"""Resume state: what earlier attempts achieved, read from the event log."""

from dataclasses import dataclass, field

from google.protobuf.duration_pb2 import Duration

from orchestrator.jobs.event_log import EventLogReader
from ytcaption.v1 import event_pb2


@dataclass(slots=True)
class ResumeState:
    """Where a new attempt resumes."""

    last_sequence: int = 0
    started: bool = False
    """Whether an attempt has appended to the event log since its job was accepted."""
    segments: int = 0
    """Settled so far; a new attempt drops repeated ones by their index."""
    settled_offset: Duration = field(default_factory=Duration)
    next_index: int = 0
    """Index of the first segment after `settled_offset`."""
    failures: int = 0
    """Attempts that ended in an error, not those that lost their runner."""
    result_logged: bool = False
    """The event log has the result; only its end may be missing."""
    finished: bool = False
    """The event log has its end."""
    earlier_attempts: int = 0
    """Made in the lives before a replay; they count neither as failures nor as crashes."""

    def note(self, sequence: int, event: event_pb2.Event) -> None:
        """Takes one event in."""
        self.last_sequence = sequence
        kind = event.WhichOneof("payload")
        self.started = kind != "job_accepted"
        match kind:
            case "segment_settled":
                self._note_segment(event)
            case "attempt_failed":
                self.failures += 1
            case "execution_result":
                self.result_logged = True
            case "job_finished":
                self.finished = True
            case "job_accepted":  # a replay starts a new life of the same job
                self.finished, self.result_logged, self.failures = False, False, 0
                self.earlier_attempts = event.attempt

    def _note_segment(self, event: event_pb2.Event) -> None:
        segment = event.segment_settled.segment
        self.segments = segment.index + 1
        settled = segment.settled_offset
        if settled.ToTimedelta() > self.settled_offset.ToTimedelta():
            self.settled_offset = settled
            self.next_index = segment.index + 1


async def read_resume_state(
    event_logs: EventLogReader,
    job_id: str,
    *,
    first_attempt: bool = False,
    patience_seconds: float = 0,
) -> ResumeState:
    """Reads the whole event log once.

    Before its first attempt a job's log has one event at most, which is also the newest: one
    request instead of a search through the stream.
    """
    resume_state = ResumeState()
    if first_attempt:
        newest = await event_logs.newest(job_id, patience_seconds=patience_seconds)
        if newest is None or (newest[1].HasField("job_accepted") and not newest[1].attempt):
            if newest is not None:
                resume_state.note(*newest)
            return resume_state
    async for sequence, event in event_logs.events(job_id, patience_seconds=patience_seconds):
        resume_state.note(sequence, event)
    return resume_state
