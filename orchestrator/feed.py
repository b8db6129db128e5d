"""What watchers of a job see: its story from the start, then live. One feed serves them all."""

from bisect import bisect_right
from collections.abc import AsyncGenerator
from functools import partial

from mesh.bus import Bus
from orchestrator.following import PROGRESS_GROUP, FeedPool, StoryFeed
from orchestrator.told import Joined, Joiner, Told
from ytcaption.v1 import event_pb2, job_pb2

__all__ = ["PROGRESS_GROUP", "Feeds", "JobFeed"]


class JobFeed(StoryFeed[Told, job_pb2.JobProgress]):
    """The story of one job."""

    last_word = event_pb2.EVENT_TYPE_JOB_FINISHED
    news = frozenset(
        {
            event_pb2.EVENT_TYPE_SEGMENT_SETTLED,
            event_pb2.EVENT_TYPE_MEDIA_FOUND,
            event_pb2.EVENT_TYPE_JOB_FINISHED,
        }
    )

    def __init__(self, bus: Bus, job_id: str) -> None:
        super().__init__(bus, job_id)
        self._joiner = Joiner(self._told)

    def _hold(self, sequence: int, event: event_pb2.Event) -> None:
        self._told.append(Told(sequence, event))

    def _figure(self, data: bytes) -> tuple[None, job_pb2.JobProgress]:
        return None, job_pb2.JobProgress.FromString(data)

    def watch(
        self, after: int, *, follow: bool = True, join: bool = False
    ) -> AsyncGenerator[Told | Joined | job_pb2.JobProgress, None]:
        """Stored events after a sequence, the newest progress between them; ends with the job."""
        position = bisect_right(self._told, after, key=lambda told: told.sequence)
        take = self._joiner.join if join else self._told.__getitem__
        return self._follow(position, take, follow=follow)


class Feeds(FeedPool[JobFeed]):
    """Feeds of the jobs that are being watched here."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(partial(JobFeed, bus))
