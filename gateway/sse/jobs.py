"""The event stream of a job: its event log, live progress, and one shared final event."""

import asyncio
from dataclasses import dataclass
from typing import Literal, Self

from gateway.client import Orchestrator
from gateway.presenters import jobs as present
from gateway.presenters.transcript import has_text, text_of
from gateway.sse.buffer import Updates
from gateway.sse.stream import ResumableStream, encode
from mesh.bearer import presented
from mesh.messages import enum_word
from mesh.tasks import mark_retrieved
from mesh.watching import TERMINAL
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

NO_TEXT = {"transcription_text", "transcription_segments"}


@dataclass(frozen=True, slots=True, eq=False)
class JobUpdate:
    """One update of a watched job, encoded once for all streams that send it."""

    kind: Literal["job", "progress", "event", "end"]
    data: bytes
    """What is sent; of an end only if another run of the job follows it."""
    sequence: int = 0
    """Its place in the event log; 0 if it is not stored."""
    job: job_pb2.Job | None = None
    """The state of the job, of "job" and "end"."""

    @classmethod
    def of(cls, job_id: str, response: pb.WatchJobResponse) -> Self:
        """Encodes one message of WatchJob."""
        match response.WhichOneof("update"):
            case "job":
                return cls.of_job(response.job)
            case "progress":
                progress = present.progress(job_id, response.progress)
                return cls("progress", encode("progress", progress))
            case _:
                event, sequence = response.event, response.sequence
                data = _stored_event(job_id, sequence, event)
                if event.type == event_pb2.EVENT_TYPE_JOB_FINISHED:
                    return cls("end", data, sequence, event.job_finished.job)
                return cls("event", data, sequence)

    @classmethod
    def of_job(cls, job: job_pb2.Job) -> Self:
        """Encodes the state of the job."""
        return cls("job", encode("job", present.detail(job), exclude=NO_TEXT), job=job)


class FinalEvents:
    """Encodes the final event of a job once for all clients that wait for it."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._pending: dict[tuple[str, str, int], asyncio.Task[bytes]] = {}

    async def of(self, job: job_pb2.Job, sequence: int) -> bytes:
        """Returns the final event; the sequence is 0 if retention has deleted the event log."""
        key = presented(), job.job_id, sequence
        task = self._pending.get(key)
        if task is None:
            task = self._pending[key] = asyncio.create_task(self._encode(job, sequence))
            task.add_done_callback(lambda _: self._pending.pop(key, None))
            task.add_done_callback(mark_retrieved)
        # A client that disconnects must not cancel the task for the others.
        return await asyncio.shield(task)

    async def _encode(self, job: job_pb2.Job, sequence: int) -> bytes:
        detail = present.detail(job)
        if has_text(job):
            detail.transcription_text = await text_of(self._orchestrator, job.job_id)
        return encode("finished", detail, sequence=sequence, exclude={"transcription_segments"})


class JobStream(ResumableStream[JobUpdate]):
    """The job, its stored events, live progress while it runs, and the final event."""

    def __init__(self, job_id: str, updates: Updates[JobUpdate], final_events: FinalEvents) -> None:
        super().__init__(job_id, updates)
        self._final_events = final_events
        self._job = job_pb2.Job(job_id=job_id)
        self._end: JobUpdate | None = None
        """Held back until nothing follows: a replayed job has several JOB_FINISHED events."""

    def _is_new(self, update: JobUpdate) -> bool:
        return bool(update.sequence) or update.job is None or update.job.state not in TERMINAL

    def _encode(self, update: JobUpdate) -> bytes:
        data = b""
        if self._end and update.sequence:  # the job was replayed after that end
            data, self._end = self._end.data, None
        if update.kind == "end":
            self._end = update
            return data
        if update.job is not None:
            self._job = update.job
        return data + update.data

    async def _final_event(self) -> bytes:
        end = self._end
        job = self._job if end is None or end.job is None else end.job
        return await self._final_events.of(job, end.sequence if end else 0)


def _stored_event(job_id: str, sequence: int, event: event_pb2.Event) -> bytes:
    match event.WhichOneof("payload"):
        case "segment_settled":
            segment = present.segment(event.segment_settled.segment)
            return encode("segment", segment, sequence=sequence)
        case "stage_changed":
            status = event.stage_changed.stage
            detail = present.stage(job_id, status)
            name = present.STAGES.get(status.stage, "")
            data = {"stage": name, "status": detail.status, "detail": detail}
            return encode("stage", data, sequence=sequence)
        case _:
            data = {
                "type": enum_word(event_pb2.EventType, event.type),
                "at": present.timestamp(event.timestamp),
                "attempt": event.attempt,
                **_payload(event),
            }
            return encode("story", data, sequence=sequence)


def _payload(event: event_pb2.Event) -> dict[str, object]:
    match event.WhichOneof("payload"):
        case "attempt_started":
            return {"resume_seconds": present.seconds(event.attempt_started.resume_offset)}
        case "attempt_failed":
            failed = event.attempt_failed
            retry_at = present.timestamp(failed.retry_time)
            return {"failure": present.failure(failed.failure), "retry_at": retry_at}
        case "media_found":
            return {"media": present.media(event.media_found.media)}
        case "start_execution":
            return {"model": event.start_execution.model or None}
        case "execution_result":
            result = event.execution_result
            return {
                **_outcome(result),
                "language": result.language or None,
                "model": result.model or None,
                "segment_count": result.segment_count,
            }
        case "collection_result":
            fetched = event.collection_result
            return {**_outcome(fetched), "size_bytes": fetched.size_bytes}
        case "job_finished":
            state = event.job_finished.job.state
            return {"state": enum_word(job_pb2.JobState, state)}
        case _:
            return {}


def _outcome(result: event_pb2.ExecutionResult | event_pb2.CollectionResult) -> dict[str, object]:
    failed = result.HasField("failure")
    return {
        "status": enum_word(job_pb2.StageState, result.state),
        "failure": present.failure(result.failure) if failed else None,
    }
