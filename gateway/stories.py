"""The story of a job as server-sent events: resumable, bounded, patient with the orchestrator."""

from collections.abc import AsyncGenerator
from math import inf

from structlog import get_logger

from gateway import telling
from gateway.backend import Orchestrator
from gateway.endings import Endings
from gateway.mailbox import ClosedError, Mailbox
from gateway.story_events import BEGINNING, HEARTBEAT, figures, sent, stored
from mesh.errors import MeshError
from mesh.watching import follow
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

log = get_logger(__name__)

HEARTBEAT_SECONDS = 15.0
NO_TEXT = {"transcription_text", "transcription_segments"}


class Story:
    """One client's way through the story of a job."""

    def __init__(
        self, orchestrator: Orchestrator, endings: Endings, job_id: str, after: int
    ) -> None:
        self._endings = endings
        self._job_id = job_id
        # Where the orchestrator goes away, the client only sees that nothing happens.
        updates = follow(orchestrator.pipeline, job_id, after, patience_seconds=inf)
        self._mail = Mailbox(updates, _live)
        self._held: list[pb.WatchJobResponse] = []
        self._job = job_pb2.Job(job_id=job_id)
        self._stopped = False
        self._end: tuple[int, job_pb2.Job] | None = None
        """An end is told when nothing follows: a job that was replayed has more than one."""

    async def has_more(self) -> bool:
        """Whether there is anything after where the client is, of a job that has ended."""
        self._mail.open()
        try:
            while not any(map(_is_news, self._held)):
                self._held += await self._mail.next(HEARTBEAT_SECONDS)
        except ClosedError:
            return False
        return True

    def stop(self) -> None:
        """Breaks it off; the client will come back to somebody else."""
        self._stopped = True
        self._mail.close()

    async def told(self) -> AsyncGenerator[bytes, None]:
        """Everything as it goes to the client; ends with the job, or when it is stopped."""
        yield BEGINNING
        self._mail.open()
        try:
            waiting = self._held
            while True:
                # What came together goes out together.
                told = [piece for update in waiting for piece in self._tell(update)]
                if told:
                    yield b"".join(told)
                waiting = await self._mail.next(HEARTBEAT_SECONDS)
                if not waiting:
                    yield HEARTBEAT
        except ClosedError:
            if not self._stopped:
                sequence, job = self._end or (0, self._job)
                yield await self._endings.of(job, sequence)
        except MeshError as error:
            # The client comes back and hears why.
            log.info("a story broke off", job_id=self._job_id, error=str(error))
        finally:
            self._mail.close()

    def _tell(self, update: pb.WatchJobResponse) -> list[bytes]:
        told: list[bytes] = []
        if self._end and update.sequence:  # that was not the end after all
            told.append(stored(self._job_id, self._end[0], _ending(self._end[1])))
            self._end = None
        match update.WhichOneof("update"):
            case "job":
                self._job = update.job
                told.append(sent("job", telling.detail(update.job), exclude=NO_TEXT))
            case "progress":
                told.append(figures(self._job_id, update.progress.SerializeToString()))
            case "event" if update.event.type == event_pb2.EVENT_TYPE_JOB_FINISHED:
                self._end = update.sequence, update.event.job_finished.job
            case "event":
                told.append(stored(self._job_id, update.sequence, update.event))
        return told


def _live(update: pb.WatchJobResponse) -> int | None:
    return 0 if update.WhichOneof("update") == "progress" else None


def _is_news(update: pb.WatchJobResponse) -> bool:
    """Whether a client that has heard the end has not heard this."""
    return bool(update.sequence) or update.job.state not in telling.TERMINAL


def _ending(job: job_pb2.Job) -> event_pb2.Event:
    return event_pb2.Event(
        type=event_pb2.EVENT_TYPE_JOB_FINISHED,
        timestamp=job.end_time,
        attempt=job.attempt,
        job_finished=event_pb2.JobFinished(job=job),
    )
