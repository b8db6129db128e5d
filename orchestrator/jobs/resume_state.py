"""What earlier attempts left behind, read from the story."""

from dataclasses import dataclass, field

from google.protobuf.duration_pb2 import Duration

from orchestrator.story import StoryReader
from ytcaption.v1 import event_pb2


@dataclass(slots=True)
class History:
    """Where a new attempt goes on."""

    last_sequence: int = 0
    segments: int = 0
    """Settled so far; those a new attempt hears again are dropped by their index."""
    settled_offset: Duration = field(default_factory=Duration)
    next_index: int = 0
    """Index of the first segment after `settled_offset`."""
    failures: int = 0
    """Attempts that ended in an error, as opposed to those that lost their runner."""
    result_told: bool = False
    """The story has the result; only its end may be missing."""
    finished: bool = False
    """The story has its end."""
    earlier_attempts: int = 0
    """Made in the lives before a replay; they count neither as failures nor as crashes."""

    def note(self, sequence: int, event: event_pb2.Event) -> None:
        """Takes one event in."""
        self.last_sequence = sequence
        match event.WhichOneof("payload"):
            case "segment_settled":
                self._note_segment(event)
            case "attempt_failed":
                self.failures += 1
            case "execution_result":
                self.result_told = True
            case "job_finished":
                self.finished = True
            case "job_accepted":  # a replay starts a new life of the same job
                self.finished, self.result_told, self.failures = False, False, 0
                self.earlier_attempts = event.attempt

    def _note_segment(self, event: event_pb2.Event) -> None:
        segment = event.segment_settled.segment
        self.segments = segment.index + 1
        settled = segment.settled_offset
        if settled.ToTimedelta() > self.settled_offset.ToTimedelta():
            self.settled_offset = settled
            self.next_index = segment.index + 1


async def read_history(
    stories: StoryReader, job_id: str, *, patience_seconds: float = 0
) -> History:
    """Reads the whole story once."""
    history = History()
    async for sequence, event in stories.events(job_id, patience_seconds=patience_seconds):
        history.note(sequence, event)
    return history
