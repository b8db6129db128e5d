"""Presents jobs; also the conversions of enums, times and shares that all presenters use."""

from datetime import UTC, datetime
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from gateway.schemas import jobs as schemas
from gateway.schemas.options import CAPTION_FORMATS, options_of
from mesh.messages import enum_word
from mesh.preparation import in_words
from mesh.watching import TERMINAL
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

EPOCH = datetime.fromtimestamp(0, UTC)
END_STATUSES: dict[int, schemas.JobStatus] = {
    job_pb2.JOB_STATE_SUCCEEDED: "completed",
    job_pb2.JOB_STATE_FAILED: "failed",
    job_pb2.JOB_STATE_CANCELLED: "cancelled",
}
STAGE_STATUSES: dict[int, schemas.JobStatus] = {
    job_pb2.STAGE_DOWNLOAD: "downloading",
    job_pb2.STAGE_NORMALIZATION: "normalizing",
    job_pb2.STAGE_TRANSCRIPTION: "transcribing",
}
STAGES = {job_pb2.Stage.Value(f"STAGE_{name.upper()}"): name for name in schemas.STAGE_NAMES}
_NOT_STARTED = (
    job_pb2.STAGE_STATE_UNSPECIFIED,
    job_pb2.STAGE_STATE_PENDING,
    job_pb2.STAGE_STATE_SKIPPED,
)
AUDIO_PREFIX = "audio."
CAPTIONS_FILE = "transcription.srt"
STAGE_JOB_IDS = {
    job_pb2.STAGE_DOWNLOAD: "{}_audio",
    job_pb2.STAGE_NORMALIZATION: "norm_{}",
    job_pb2.STAGE_TRANSCRIPTION: "trans_{}",
}
"""Ids of the stages of a job, in the forms of the earlier system."""


def job_status(state: int, stages: Any) -> schemas.JobStatus:
    """Returns the status of a job; while it runs, that of the last stage that has started."""
    if state in END_STATUSES:
        return END_STATUSES[state]
    if state != job_pb2.JOB_STATE_RUNNING:
        return "queued"
    # In the order of the pipeline. Stages the earlier system did not have count as those before.
    started = [one.stage for one in stages if one.state not in _NOT_STARTED]
    known = [STAGE_STATUSES[stage] for stage in started if stage in STAGE_STATUSES]
    return known[-1] if known else "queued"


def timestamp(time: Timestamp) -> datetime | None:
    """Converts a timestamp; None if it is not set."""
    return time.ToDatetime(UTC) if time.seconds or time.nanos else None


def seconds(duration: Duration) -> float:
    """Converts a duration, rounded to milliseconds."""
    return round(duration.seconds + duration.nanos / 1e9, 3)


def percent(share: float) -> float:
    """Converts a share to percent, clamped to 0 to 100."""
    return round(min(100.0, max(0.0, 100 * share)), 2)


def summary(job: job_pb2.Job) -> schemas.JobSummary:
    """Presents a job as an entry of a list."""
    return schemas.JobSummary.of(job, **_summary(job))


def _summary(job: job_pb2.Job) -> dict[str, Any]:
    created = timestamp(job.create_time) or EPOCH
    return {
        "youtube_url": job.source.url,
        "title": job.media.title,
        "file_name": job.source.upload.file_name,
        "status": job_status(job.state, job.stages),
        "state": enum_word(job_pb2.JobState, job.state),
        "progress": (100.0 if job.state == job_pb2.JOB_STATE_SUCCEEDED else percent(job.progress)),
        "created_at": created,
        "updated_at": timestamp(job.update_time) or created,
        "completed_at": timestamp(job.end_time),
        "duration_seconds": (
            seconds(job.media.duration) if job.media.HasField("duration") else None
        ),
        "failure": failure(job.failure) if job.HasField("failure") else None,
    }


def job_list(page: pb.ListJobsResponse | pb.WatchJobsResponse) -> schemas.JobList:
    """Presents one page of jobs."""
    return schemas.JobList(
        total=page.total_size,
        next_page_token=page.next_page_token,
        jobs=[summary(job) for job in page.jobs],
    )


def failure(found: job_pb2.Failure) -> schemas.Failure:
    """Presents the failure of a job, an attempt or a listing."""
    return schemas.Failure.of(found, stage=STAGES.get(found.stage))


def audio_artifact(job: job_pb2.Job) -> job_pb2.Artifact | None:
    """Returns the stored audio of a job, if any."""
    return next((one for one in job.artifacts if one.name.startswith(AUDIO_PREFIX)), None)


def detail(job: job_pb2.Job) -> schemas.JobDetail:
    """Presents a job in full, without its text."""
    fields = _summary(job)
    ended, succeeded = job.state in TERMINAL, job.state == job_pb2.JOB_STATE_SUCCEEDED
    path, audio = f"/jobs/{job.job_id}", audio_artifact(job)
    return schemas.JobDetail.of(
        job,
        **fields,
        overall_progress=fields["progress"],
        stages=stages(job.job_id, job.stages),
        transcription_file=CAPTIONS_FILE if succeeded else None,
        transcription_url=f"{path}/captions.srt" if succeeded else None,
        audio_file=f"audio_normalized.{audio.name.removeprefix(AUDIO_PREFIX)}" if audio else None,
        audio_url=f"{path}/audio" if audio else None,
        media=media(job.media) if job.HasField("media") else None,
        options=options_of(job.options),
        filters=[
            schemas.AppliedFilter.of(one, target=enum_word(media_pb2.FilterTarget, one.target))
            for one in job.applied_filters
        ],
        warnings=[schemas.JobWarning.of(one) for one in job.warnings],
        human_captions=(
            job.human_captions.name or job.human_captions.language
            if job.HasField("human_captions")
            else None
        ),
        priority=enum_word(job_pb2.Priority, job.priority or job_pb2.PRIORITY_NORMAL),
        error=job.failure.message if job.state == job_pb2.JOB_STATE_FAILED else None,
        formats=list(CAPTION_FORMATS) if succeeded or job.segment_count else [],
        can_cancel=not ended,
        can_retry=ended,
    )


def stages(job_id: str, found: Any) -> schemas.Stages:
    """Presents all stages; those missing in the job are pending."""
    statuses = {one.stage: one for one in found}
    models: dict[str, Any] = {
        name: stage(job_id, statuses.get(number) or job_pb2.StageStatus(stage=number))
        for number, name in STAGES.items()
    }
    return schemas.Stages.model_construct(**models)


def stage(job_id: str, found: job_pb2.StageStatus) -> schemas.Stage:
    """Presents one stage."""
    done, total = _amounts(found)
    completed = found.state == job_pb2.STAGE_STATE_COMPLETED
    share = 1.0 if completed else done / total if done and total else 0.0
    started = found.state not in _NOT_STARTED
    transfer = found.progress.bytes
    return schemas.Stage.model_construct(
        status=enum_word(job_pb2.StageState, found.state or job_pb2.STAGE_STATE_PENDING),
        job_id=STAGE_JOB_IDS.get(found.stage, "{}").format(job_id) if started else None,
        progress=percent(share),
        started_at=timestamp(found.start_time),
        completed_at=timestamp(found.end_time),
        done=done,
        total=total,
        unit="bytes" if found.stage == job_pb2.STAGE_DOWNLOAD else "seconds",
        bytes_per_second=transfer.bytes_per_second
        if transfer.HasField("bytes_per_second")
        else None,
        eta_seconds=seconds(transfer.remaining) if transfer.HasField("remaining") else None,
        preparing=preparing(found.preparing) if found.HasField("preparing") else None,
    )


def progress(job_id: str, found: job_pb2.JobProgress) -> schemas.JobProgress:
    """Presents the live progress of a running job."""
    return schemas.JobProgress.model_construct(
        overall_progress=percent(found.progress),
        status=job_status(job_pb2.JOB_STATE_RUNNING, found.stages),
        stages=stages(job_id, found.stages),
    )


def _amounts(found: job_pb2.StageStatus) -> tuple[float | None, float | None]:
    match found.progress.WhichOneof("amount"):
        case "bytes":
            transfer = found.progress.bytes
            known = transfer.HasField("total_bytes")
            return transfer.done_bytes, transfer.total_bytes if known else None
        case "media":
            amount = found.progress.media
            total = seconds(amount.total) if amount.HasField("total") else None
            return seconds(amount.done), total
        case _:
            return None, None


def preparing(found: media_pb2.ModelPreparation) -> schemas.ModelPreparation:
    """Presents what a model still needs before it can transcribe."""
    fetched = found.fetched
    return schemas.ModelPreparation.of(
        found,
        phase=enum_word(media_pb2.PreparationPhase, found.phase),
        done_bytes=fetched.done_bytes if found.HasField("fetched") else None,
        total_bytes=fetched.total_bytes if fetched.HasField("total_bytes") else None,
        text=in_words(found),
    )


def media(found: media_pb2.MediaInfo) -> schemas.Media:
    """Presents the metadata of the source."""
    return schemas.Media.of(
        found,
        duration_seconds=seconds(found.duration) if found.HasField("duration") else None,
        chapters=[
            schemas.Chapter.of(one, start=seconds(one.start_offset), end=seconds(one.end_offset))
            for one in found.chapters
        ],
    )


def segment(found: media_pb2.Segment) -> schemas.Segment:
    """Presents one segment of the transcript."""
    start, end = seconds(found.start_offset), seconds(found.end_offset)
    return schemas.Segment.of(
        found,
        start=start,
        end=end,
        duration=round(end - start, 3),
        confidence=_confidence(found),
        words=[
            schemas.Word.of(
                word,
                start=seconds(word.start_offset),
                end=seconds(word.end_offset),
                confidence=_confidence(word),
            )
            for word in found.words
        ],
    )


def _confidence(found: media_pb2.Segment | media_pb2.Word) -> float | None:
    return round(found.confidence, 4) if found.HasField("confidence") else None
