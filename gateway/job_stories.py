"""The story of a job as server-sent events."""

from math import inf

from gateway import telling
from gateway.backend import Orchestrator
from gateway.endings import Endings
from gateway.stories import Story
from gateway.story_events import figures, sent, stored
from mesh.watching import follow
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

NO_TEXT = {"transcription_text", "transcription_segments"}


class JobStory(Story[pb.WatchJobResponse]):
    """One client's way through the story of a job."""

    def __init__(
        self, orchestrator: Orchestrator, endings: Endings, job_id: str, after: int
    ) -> None:
        # Where the orchestrator goes away, the client only sees that nothing happens.
        updates = follow(orchestrator.pipeline, job_id, after, patience_seconds=inf)
        super().__init__(job_id, updates, _live)
        self._endings = endings
        self._job = job_pb2.Job(job_id=job_id)
        self._end: tuple[int, job_pb2.Job] | None = None
        """An end is told when nothing follows: a job that was replayed has more than one."""

    def _is_news(self, update: pb.WatchJobResponse) -> bool:
        return bool(update.sequence) or update.job.state not in telling.TERMINAL

    def _tell(self, update: pb.WatchJobResponse) -> bytes:
        told = b""
        if self._end and update.sequence:  # that was not the end after all
            told = stored(self._subject_id, self._end[0], _finished(self._end[1]))
            self._end = None
        match update.WhichOneof("update"):
            case "job":
                self._job = update.job
                told += sent("job", telling.detail(update.job), exclude=NO_TEXT)
            case "progress":
                told += figures(self._subject_id, update.progress.SerializeToString())
            case "event" if update.event.type == event_pb2.EVENT_TYPE_JOB_FINISHED:
                self._end = update.sequence, update.event.job_finished.job
            case "event":
                told += stored(self._subject_id, update.sequence, update.event)
        return told

    async def _ending(self) -> bytes:
        sequence, job = self._end or (0, self._job)
        return await self._endings.of(job, sequence)


def _live(update: pb.WatchJobResponse) -> int | None:
    return 0 if update.WhichOneof("update") == "progress" else None


def _finished(job: job_pb2.Job) -> event_pb2.Event:
    return event_pb2.Event(
        type=event_pb2.EVENT_TYPE_JOB_FINISHED,
        timestamp=job.end_time,
        attempt=job.attempt,
        job_finished=event_pb2.JobFinished(job=job),
    )
