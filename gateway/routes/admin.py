"""For the people who run the mesh: figures, and getting rid of things."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Body, Query
from google.protobuf.duration import from_timedelta
from google.protobuf.duration_pb2 import Duration
from pydantic import Field

from gateway.backend import REMOVING_SECONDS
from gateway.choices import Strict
from gateway.face import FaceOf
from gateway.mesh_shapes import (
    CleanedUp,
    OwnReset,
    Reset,
    StageReset,
    Stats,
    Stored,
    Version,
)
from gateway.problems import described
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2

router = APIRouter(prefix="/admin", tags=["admin"])

CENTURY_HOURS = 876_000
OLD_NAMES = {
    "downloader": "video-downloader",
    "normalizer": "audio-normalization",
    "transcriber": "audio-transcriber",
}
"""What callers of the earlier system call the stages."""


class CleanupChoices(Strict):
    """What shall go."""

    max_age_hours: float = Field(
        default=24,
        ge=0,
        le=CENTURY_HOURS,
        allow_inf_nan=False,
        description="Jobs that ended, and collections that were settled, longer ago go.",
    )
    deep: bool = Field(
        default=False,
        description="All jobs that have ended and all settled collections go, whatever their age.",
    )
    dry_run: bool = Field(default=False, description="Only count.")


class ResetChoices(Strict):
    """The words without which nothing happens."""

    confirmation: str = Field(default="", max_length=100, description="Must be: ERASE EVERYTHING")
    dry_run: bool = Field(default=False, description="Only count.")


@router.get("/stats", responses=described())
async def stats(face: FaceOf) -> Stats:
    """Counts, sizes and settings."""
    admin = face.orchestrator.admin
    found = await face.orchestrator.ask(admin.GetStats, pb.GetStatsRequest())
    jobs = {one.state: one.count for one in found.jobs}
    queued = jobs.get(job_pb2.JOB_STATE_QUEUED, 0)
    limits = found.limits
    return Stats(
        orchestrator=Version(version=found.version, environment=face.settings.environment),
        redis=Stored(
            total_jobs=sum(jobs.values()),
            active_jobs=queued + jobs.get(job_pb2.JOB_STATE_RUNNING, 0),
            completed_jobs=jobs.get(job_pb2.JOB_STATE_SUCCEEDED, 0),
            failed_jobs=jobs.get(job_pb2.JOB_STATE_FAILED, 0),
            cancelled_jobs=jobs.get(job_pb2.JOB_STATE_CANCELLED, 0),
            queued_jobs=queued,
            dead_letters=found.dead_letters,
            memory_usage=_size(found.stored_bytes),
            stored_bytes=found.stored_bytes,
        ),
        settings={
            "cache_ttl_hours": _seconds(limits.cache_time) / 3600,
            "job_timeout_minutes": _seconds(limits.attempt_time) / 60,
            "stall_seconds": _seconds(limits.stall_time),
            "retention_hours": _seconds(limits.retention_time) / 3600,
            "max_attempts": limits.max_attempts,
            "concurrency": limits.concurrency,
            "max_upload_bytes": min(limits.max_upload_bytes, face.settings.max_upload_bytes),
        },
        uptime_seconds=round(_seconds(found.uptime), 3),
    )


@router.post("/cleanup", responses=described())
async def clean_up(
    face: FaceOf,
    asked: Annotated[CleanupChoices, Query()],
    body: Annotated[CleanupChoices | None, Body()] = None,
) -> CleanedUp:
    """Removes what ended long ago; choices in a body come before those in the query."""
    chosen = body or asked
    age = timedelta(hours=0 if chosen.deep else chosen.max_age_hours)
    request = pb.CleanupRequest(max_age=from_timedelta(age), dry_run=chosen.dry_run)
    admin = face.orchestrator.admin
    done = await face.orchestrator.ask(admin.Cleanup, request, REMOVING_SECONDS)
    return CleanedUp(
        message="this would be removed" if chosen.dry_run else "removed",
        jobs_removed=done.jobs_removed,
        collections_removed=done.collections_removed,
        logs_cleaned=done.events_removed,
        files_removed=done.artifacts_removed,
        bytes_removed=done.bytes_removed,
        dry_run=chosen.dry_run,
    )


@router.post("/factory-reset", responses=described())
async def factory_reset(
    face: FaceOf,
    asked: Annotated[ResetChoices, Query()],
    body: Annotated[ResetChoices | None, Body()] = None,
) -> Reset:
    """Removes everything that is ours, and nothing else."""
    chosen = body or asked
    request = pb.FactoryResetRequest(confirmation=chosen.confirmation, dry_run=chosen.dry_run)
    admin = face.orchestrator.admin
    done = await face.orchestrator.ask(admin.FactoryReset, request, REMOVING_SECONDS)
    services = {one.name: one for one in done.services}
    own = services.pop("orchestrator", pb.ServiceReset())
    undone = [one.name for one in done.services if not one.done]
    return Reset(
        message="this would be removed" if chosen.dry_run else "removed",
        orchestrator=OwnReset(
            jobs_removed=own.jobs_removed,
            collections_removed=own.collections_removed,
            logs_cleaned=own.tasks_purged,
            files_removed=own.files_removed,
            bytes_removed=own.bytes_removed,
        ),
        microservices={OLD_NAMES.get(name, name): _reset(one) for name, one in services.items()},
        warning=f"not everything went: {', '.join(undone)}" if undone else None,
    )


def _reset(service: pb.ServiceReset) -> StageReset:
    return StageReset(
        status="done" if service.done else service.error or "not done",
        data={"files_removed": service.files_removed, "tasks_purged": service.tasks_purged},
    )


def _seconds(duration: Duration) -> float:
    return duration.ToTimedelta().total_seconds()


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
