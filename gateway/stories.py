"""The story of a job as server-sent events: resumable, bounded, patient with the orchestrator."""

from collections.abc import AsyncGenerator

from structlog import get_logger

from gateway import telling
from gateway.backend import Orchestrator
from gateway.heard import Texts, has_text
from gateway.mailbox import ClosedError, Mailbox
from gateway.story_events import BEGINNING, HEARTBEAT, finished, sent, stored
from mesh.errors import MeshError
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

log = get_logger(__name__)

HEARTBEAT_SECONDS = 15.0
NO_TEXT = {"transcription_text", "transcription_segments"}


class Story:
    """One client's way through the story of a job."""

    def __init__(self, orchestrator: Orchestrator, texts: Texts, job_id: str, after: int) -> None:
        self._texts = texts
        self._job_id = job_id
        self._mail = Mailbox(orchestrator, job_id, after)
        self._held: list[pb.WatchJobResponse] = []
        self._job = job_pb2.Job(job_id=job_id)
        self._stopped = False
        self._end: tuple[int, job_pb2.Job] | None = None
        """An end is told when nothing follows: a job that was replayed has more than one."""

    async def has_more(self) -> bool:
        """Whether there is anything after where the client is, of a job that has ended."""
        self._mail.open()
        try:
            while True:
                update = await self._mail.next(HEARTBEAT_SECONDS)
                if update is None:
                    continue
                self._held.append(update)
                if update.sequence or update.job.state not in telling.TERMINAL:
                    return True
        except ClosedError:
            return False

    def stop(self) -> None:
        """Breaks it off; the client will come back to somebody else."""
        self._stopped = True
        self._mail.close()

    async def told(self) -> AsyncGenerator[bytes, None]:
        """Everything as it goes to the client; ends with the job, or when it is stopped."""
        yield BEGINNING
        self._mail.open()
        try:
            for update in self._held:
                for piece in self._tell(update):
                    yield piece
            while True:
                coming = await self._mail.next(HEARTBEAT_SECONDS)
                for piece in [HEARTBEAT] if coming is None else self._tell(coming):
                    yield piece
        except ClosedError:
            if not self._stopped:
                yield await self._last_words()
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
                told.append(sent("progress", self._figures(update.progress)))
            case "event" if update.event.type == event_pb2.EVENT_TYPE_JOB_FINISHED:
                self._end = update.sequence, update.event.job_finished.job
            case "event":
                told.append(stored(self._job_id, update.sequence, update.event))
        return told

    def _figures(self, progress: job_pb2.JobProgress) -> dict[str, object]:
        running = job_pb2.JOB_STATE_RUNNING
        return {
            "overall_progress": telling.percent(progress.progress),
            "status": telling.status_word(running, progress.stages),
            "stages": telling.stages(self._job_id, progress.stages),
        }

    async def _last_words(self) -> bytes:
        """A job that has outlived its story ends without an id."""
        sequence, job = self._end or (0, self._job)
        detail = telling.detail(job)
        if has_text(job):
            detail.transcription_text = await self._texts.of(self._job_id)
        return finished(sequence, detail)


def _ending(job: job_pb2.Job) -> event_pb2.Event:
    return event_pb2.Event(
        type=event_pb2.EVENT_TYPE_JOB_FINISHED,
        timestamp=job.end_time,
        attempt=job.attempt,
        job_finished=event_pb2.JobFinished(job=job),
    )
