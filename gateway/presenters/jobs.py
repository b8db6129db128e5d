"""Jobs as the contracts have them, told as callers of the HTTP face know them."""

from datetime import UTC, datetime
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from gateway import shapes
from gateway.choices import chosen_in
from mesh.preparation import in_words
from ytcaption.v1 import job_pb2, media_pb2

TERMINAL = frozenset(
    {job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED}
)
ENDS: dict[int, shapes.StatusWord] = {
    job_pb2.JOB_STATE_SUCCEEDED: "completed",
    job_pb2.JOB_STATE_FAILED: "failed",
    job_pb2.JOB_STATE_CANCELLED: "cancelled",
}
DOING: dict[int, shapes.StatusWord] = {
    job_pb2.STAGE_DOWNLOAD: "downloading",
    job_pb2.STAGE_NORMALIZATION: "normalizing",
    job_pb2.STAGE_TRANSCRIPTION: "transcribing",
}
STAGES = {
    job_pb2.STAGE_DOWNLOAD: "download",
    job_pb2.STAGE_NORMALIZATION: "normalization",
    job_pb2.STAGE_TRANSCRIPTION: "transcription",
}
_NOT_BEGUN = (
    job_pb2.STAGE_STATE_UNSPECIFIED,
    job_pb2.STAGE_STATE_PENDING,
    job_pb2.STAGE_STATE_SKIPPED,
)
AUDIO = "audio."


def word(number: int, kind: Any, prefix: str) -> str:
    """A member of an enum without its prefix, in small letters; what is new to us as a number."""
    try:
        return str(kind.Name(number)).removeprefix(prefix).lower()
    except ValueError:
        return str(number)


def status_word(state: int, stages: Any) -> shapes.StatusWord:
    """Stages overlap: the word is the furthest one that has begun."""
    if state in ENDS:
        return ENDS[state]
    if state != job_pb2.JOB_STATE_RUNNING:
        return "queued"
    begun = [one.stage for one in stages if one.state not in _NOT_BEGUN]
    return DOING.get(max(begun, default=0), "queued")


def moment(time: Timestamp) -> datetime | None:
    """None if it is not set."""
    return time.ToDatetime(UTC) if time.seconds or time.nanos else None


def seconds(duration: Duration) -> float:
    """With milliseconds, which is all anybody needs."""
    return round(duration.seconds + duration.nanos / 1e9, 3)


def percent(share: float) -> float:
    """0 to 100, never beyond."""
    return round(min(100.0, max(0.0, 100 * share)), 2)


def overall(state: int, progress: float) -> float:
    """How much of the job is done."""
    return 100.0 if state == job_pb2.JOB_STATE_SUCCEEDED else percent(progress)


def summary(job: job_pb2.Job) -> shapes.Summary:
    """A line of a list."""
    return shapes.Summary.model_construct(**_summary(job))


def _summary(job: job_pb2.Job) -> dict[str, Any]:
    created = moment(job.create_time) or datetime.fromtimestamp(0, UTC)
    return {
        "job_id": job.job_id,
        "youtube_url": job.source.url,
        "title": job.media.title,
        "file_name": job.source.upload.file_name,
        "status": status_word(job.state, job.stages),
        "state": word(job.state, job_pb2.JobState, "JOB_STATE_"),
        "progress": overall(job.state, job.progress),
        "created_at": created,
        "updated_at": moment(job.update_time) or created,
        "completed_at": moment(job.end_time),
        "duration_seconds": (
            seconds(job.media.duration) if job.media.HasField("duration") else None
        ),
        "language": job.language or None,
        "failure": failure(job.failure) if job.HasField("failure") else None,
    }


def failure(found: job_pb2.Failure) -> shapes.Failure:
    """Why it failed."""
    return shapes.Failure.model_construct(
        reason=found.reason,
        message=found.message,
        retryable=found.retryable,
        stage=STAGES.get(found.stage),
        attempt=found.attempt,
    )


def audio_of(job: job_pb2.Job) -> job_pb2.Artifact | None:
    """The kept audio, if there is any."""
    return next((one for one in job.artifacts if one.name.startswith(AUDIO)), None)


def detail(job: job_pb2.Job) -> shapes.Detail:
    """Everything but the text."""
    summed = _summary(job)
    ended, succeeded = job.state in TERMINAL, job.state == job_pb2.JOB_STATE_SUCCEEDED
    at = f"/jobs/{job.job_id}"
    return shapes.Detail.model_construct(
        **summed,
        overall_progress=summed["progress"],
        stages=stages(job.job_id, job.stages),
        transcription_file=f"{at}/captions.srt" if succeeded else None,
        audio_file=f"{at}/audio" if audio_of(job) else None,
        media=media(job.media) if job.HasField("media") else None,
        options=chosen_in(job.options),
        filters=[_filter(one) for one in job.applied_filters],
        warnings=[
            shapes.Caution.model_construct(reason=one.reason, message=one.message)
            for one in job.warnings
        ],
        segment_count=job.segment_count,
        model=job.model or None,
        translation_model=job.translation_model or None,
        language_probability=(
            job.language_probability if job.HasField("language_probability") else None
        ),
        language_out=job.language_out or None,
        human_captions=(
            job.human_captions.name or job.human_captions.language
            if job.HasField("human_captions")
            else None
        ),
        cached_from_job_id=job.cached_from_job_id or None,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        priority=word(job.priority or job_pb2.PRIORITY_NORMAL, job_pb2.Priority, "PRIORITY_"),
        caller=job.caller,
        cancel_note=job.cancel_note or None,
        webhook_url=job.webhook_url,
        correlation_id=job.correlation_id,
        error=job.failure.message if job.state == job_pb2.JOB_STATE_FAILED else None,
        formats=list(shapes.CAPTION_FORMATS) if succeeded or job.segment_count else [],
        can_cancel=not ended,
        can_retry=ended,
    )


def stages(job_id: str, found: Any) -> shapes.Stages:
    """All three, whatever the job says of them."""
    told = {one.stage: one for one in found}
    every: dict[str, Any] = {
        name: stage(job_id, told.get(number) or job_pb2.StageStatus(stage=number))
        for number, name in STAGES.items()
    }
    return shapes.Stages.model_construct(**every)


def stage(job_id: str, found: job_pb2.StageStatus) -> shapes.Stage:
    """How far one stage is."""
    done, total = _amounts(found)
    completed = found.state == job_pb2.STAGE_STATE_COMPLETED
    share = 1.0 if completed else done / total if done and total else 0.0
    begun = found.state not in _NOT_BEGUN
    moved = found.progress.bytes
    return shapes.Stage.model_construct(
        status=word(found.state or job_pb2.STAGE_STATE_PENDING, job_pb2.StageState, "STAGE_STATE_"),
        job_id=job_id if begun else None,
        progress=percent(share),
        started_at=moment(found.start_time),
        completed_at=moment(found.end_time),
        done=done,
        total=total,
        unit="bytes" if found.stage == job_pb2.STAGE_DOWNLOAD else "seconds",
        bytes_per_second=moved.bytes_per_second if moved.HasField("bytes_per_second") else None,
        eta_seconds=seconds(moved.remaining) if moved.HasField("remaining") else None,
        preparing=preparing(found.preparing) if found.HasField("preparing") else None,
    )


def _amounts(found: job_pb2.StageStatus) -> tuple[float | None, float | None]:
    match found.progress.WhichOneof("amount"):
        case "bytes":
            amount = found.progress.bytes
            known = amount.HasField("total_bytes")
            return amount.done_bytes, amount.total_bytes if known else None
        case "media":
            heard = found.progress.media
            return seconds(heard.done), seconds(heard.total) if heard.HasField("total") else None
        case _:
            return None, None


def preparing(found: media_pb2.ModelPreparation) -> shapes.Preparing:
    """What the model still needs."""
    fetched = found.fetched
    return shapes.Preparing.model_construct(
        model=found.model,
        phase=word(found.phase, media_pb2.PreparationPhase, "PREPARATION_PHASE_"),
        done_bytes=fetched.done_bytes if found.HasField("fetched") else None,
        total_bytes=fetched.total_bytes if fetched.HasField("total_bytes") else None,
        text=in_words(found),
    )


def media(found: media_pb2.MediaInfo) -> shapes.Media:
    """What the source says about itself."""
    return shapes.Media.model_construct(
        title=found.title,
        uploader=found.uploader,
        webpage_url=found.webpage_url,
        thumbnail_url=found.thumbnail_url,
        extractor=found.extractor,
        upload_date=found.upload_date,
        duration_seconds=seconds(found.duration) if found.HasField("duration") else None,
        chapters=[
            shapes.Chapter.model_construct(
                title=one.title, start=seconds(one.start_offset), end=seconds(one.end_offset)
            )
            for one in found.chapters
        ],
    )


def _filter(found: media_pb2.AppliedFilter) -> shapes.Filter:
    return shapes.Filter.model_construct(
        name=found.name,
        parameters=found.parameters,
        target=word(found.target, media_pb2.FilterTarget, "FILTER_TARGET_"),
        option=found.option,
    )
