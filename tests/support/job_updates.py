"""Updates of a job's watch, message by message."""

from datetime import timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration

from ytcaption.v1 import event_pb2 as event_pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

JOB_ID = "0199aaaa-0000-7000-8000-000000000001"


def duration(seconds: float) -> Duration:
    found = Duration()
    found.FromTimedelta(timedelta(seconds=seconds))
    return found


def segment(sequence: int, text: str) -> pb.WatchJobResponse:
    """The index is the sequence number, so that a lost segment shows."""
    settled = event_pb.SegmentSettled(
        segment=media_pb.Segment(
            index=sequence,
            start_offset=duration(sequence),
            end_offset=duration(sequence + 0.5),
            text=text,
        )
    )
    event = event_pb.Event(type=event_pb.EVENT_TYPE_SEGMENT_SETTLED, segment_settled=settled)
    return pb.WatchJobResponse(sequence=sequence, event=event)


def media_found(sequence: int, title: str) -> pb.WatchJobResponse:
    found = event_pb.MediaFound(media=media_pb.MediaInfo(title=title))
    event = event_pb.Event(type=event_pb.EVENT_TYPE_MEDIA_FOUND, media_found=found)
    return pb.WatchJobResponse(sequence=sequence, event=event)


def finished(sequence: int, job: job_pb.Job) -> pb.WatchJobResponse:
    event = event_pb.Event(
        type=event_pb.EVENT_TYPE_JOB_FINISHED, job_finished=event_pb.JobFinished(job=job)
    )
    return pb.WatchJobResponse(sequence=sequence, event=event)


def attempt_failed(sequence: int, message: str) -> pb.WatchJobResponse:
    failed = event_pb.AttemptFailed(failure=job_pb.Failure(reason="SITE_ERROR", message=message))
    event = event_pb.Event(type=event_pb.EVENT_TYPE_ATTEMPT_FAILED, attempt_failed=failed)
    return pb.WatchJobResponse(sequence=sequence, event=event)


def accepted(sequence: int, job: job_pb.Job) -> pb.WatchJobResponse:
    event = event_pb.Event(
        type=event_pb.EVENT_TYPE_JOB_ACCEPTED, job_accepted=event_pb.JobAccepted(job=job)
    )
    return pb.WatchJobResponse(sequence=sequence, event=event)


def progress(done: float, total: float | None) -> pb.WatchJobResponse:
    download = media_pb.ByteProgress(done_bytes=int(done * 1000))
    transcribed = media_pb.MediaProgress(done=duration(done))
    if total is not None:
        download.total_bytes = int(total * 1000)
        transcribed.total.CopyFrom(duration(total))
    running = job_pb.STAGE_STATE_RUNNING
    stages = [
        job_pb.StageStatus(
            stage=job_pb.STAGE_DOWNLOAD, state=running, progress=media_pb.Progress(bytes=download)
        ),
        job_pb.StageStatus(
            stage=job_pb.STAGE_TRANSCRIPTION,
            state=running,
            progress=media_pb.Progress(media=transcribed),
        ),
    ]
    return pb.WatchJobResponse(progress=job_pb.JobProgress(job_id=JOB_ID, stages=stages))


def ended_job(state: job_pb.JobState.ValueType, **fields: Any) -> job_pb.Job:
    return job_pb.Job(job_id=JOB_ID, state=state, **fields)


SUCCEEDED = ended_job(
    job_pb.JOB_STATE_SUCCEEDED, segment_count=2, media=media_pb.MediaInfo(title="A talk")
)
FAILED = ended_job(
    job_pb.JOB_STATE_FAILED,
    failure=job_pb.Failure(reason="VIDEO_PRIVATE", message="the video is private"),
)
REPLAYED = job_pb.Job(job_id=JOB_ID, state=job_pb.JOB_STATE_QUEUED, attempt=1, max_attempts=5)
EVENT_LOG = [
    media_found(1, "A talk"),
    segment(2, "hello"),
    segment(3, "world"),
    finished(4, SUCCEEDED),
]
