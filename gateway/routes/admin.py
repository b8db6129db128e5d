"""Administration: statistics, cleanup, factory reset and webhook deliveries."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Body, Query
from google.protobuf.duration import from_timedelta

from gateway.client import DELETION_SECONDS, call
from gateway.deps import Deps
from gateway.http.parameters import Page
from gateway.http.problems import problem_responses
from gateway.presenters.jobs import EPOCH, seconds, timestamp
from gateway.schemas.mesh import (
    LEGACY_SERVICE_NAMES,
    CleanupOptions,
    CleanupResult,
    Delivery,
    DeliveryAttempt,
    DeliveryList,
    FactoryResetOptions,
    FactoryResetResult,
    OrchestratorInfo,
    OrchestratorReset,
    ServiceReset,
    Stats,
    StorageStats,
)
from mesh.messages import enum_word
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2

router = APIRouter(prefix="/admin", tags=["admin"])
webhooks = APIRouter(prefix="/webhooks", tags=["webhooks"])

NO_POLLING = "services push events to each other and poll nothing"
"""What there is instead of `poll_interval` and `max_poll_attempts`."""

SubjectId = Annotated[str, Query(max_length=64)]


@router.get("/stats", responses=problem_responses())
async def stats(deps: Deps) -> Stats:
    """Returns job counts, storage sizes and settings."""
    found = await call(deps.orchestrator.admin.GetStats, pb.GetStatsRequest())
    jobs = {one.state: one.count for one in found.jobs}
    queued = jobs.get(job_pb2.JOB_STATE_QUEUED, 0)
    limits = found.limits
    return Stats(
        orchestrator=OrchestratorInfo(version=found.version, environment=deps.settings.environment),
        redis=StorageStats(
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
            "cache_ttl_hours": seconds(limits.cache_time) / 3600,
            "job_timeout_minutes": seconds(limits.attempt_time) / 60,
            "stall_seconds": seconds(limits.stall_time),
            "retention_hours": seconds(limits.retention_time) / 3600,
            "max_attempts": limits.max_attempts,
            "concurrency": limits.concurrency,
            "max_upload_bytes": min(limits.max_upload_bytes, deps.settings.max_upload_bytes),
            "poll_interval": None,
            "max_poll_attempts": None,
            "polling": NO_POLLING,
        },
        uptime_seconds=seconds(found.uptime),
    )


@router.post("/cleanup", responses=problem_responses())
async def cleanup(
    deps: Deps,
    query: Annotated[CleanupOptions, Query()],
    body: Annotated[CleanupOptions | None, Body()] = None,
) -> CleanupResult:
    """Deletes old jobs and collections, with `deep` old log files too.

    Options in the body replace those in the query.
    """
    options = body or query
    request = pb.CleanupRequest(
        max_age=from_timedelta(timedelta(hours=options.max_age_hours)),
        dry_run=options.dry_run,
        logs=options.deep,
    )
    done = await call(deps.orchestrator.admin.Cleanup, request, DELETION_SECONDS)
    return CleanupResult.of(
        done,
        message=_message("Cleanup executado com sucesso", dry_run=options.dry_run),
        logs_cleaned=done.logs_cleaned and not options.dry_run,
        files_removed=done.artifacts_removed,
        dry_run=options.dry_run,
    )


@router.post("/factory-reset", responses=problem_responses())
async def factory_reset(
    deps: Deps,
    query: Annotated[FactoryResetOptions, Query()],
    body: Annotated[FactoryResetOptions | None, Body()] = None,
) -> FactoryResetResult:
    """Deletes all data of this mesh, and nothing else on the servers it uses."""
    options = body or query
    request = pb.FactoryResetRequest(confirmation=options.confirmation, dry_run=options.dry_run)
    done = await call(deps.orchestrator.admin.FactoryReset, request, DELETION_SECONDS)
    services = {one.name: one for one in done.services}
    own = services.pop("orchestrator", pb.ServiceReset())
    incomplete = [one.name for one in done.services if not one.done]
    whole = "Factory reset executado em todos os serviços"
    part = "Factory reset executado em parte dos serviços"
    warning = None if options.dry_run else "Todos os dados foram removidos de todos os serviços"
    return FactoryResetResult(
        message=_message(part if incomplete else whole, dry_run=options.dry_run),
        orchestrator=OrchestratorReset.of(
            own, logs_cleaned=own.logs_cleaned and not options.dry_run
        ),
        microservices={
            LEGACY_SERVICE_NAMES.get(name, name): _service_reset(one)
            for name, one in services.items()
        },
        warning=f"reset incomplete: {', '.join(incomplete)}" if incomplete else warning,
    )


def _service_reset(service: pb.ServiceReset) -> ServiceReset:
    return ServiceReset(
        status="success" if service.done else service.error or "not done",
        data={"files_removed": service.files_removed, "tasks_purged": service.tasks_purged},
    )


@webhooks.get("/deliveries", responses=problem_responses())
async def list_deliveries(
    deps: Deps, page: Page, job_id: SubjectId = "", collection_id: SubjectId = ""
) -> DeliveryList:
    """Lists webhook deliveries with their attempts, newest first."""
    request = pb.ListWebhookDeliveriesRequest(**page, job_id=job_id, collection_id=collection_id)
    found = await call(deps.orchestrator.admin.ListWebhookDeliveries, request)
    return DeliveryList(
        deliveries=[_delivery(one) for one in found.deliveries],
        next_page_token=found.next_page_token,
    )


def _delivery(found: pb.WebhookDelivery) -> Delivery:
    attempts = [
        DeliveryAttempt.of(
            one, started_at=timestamp(one.start_time) or EPOCH, seconds=seconds(one.duration)
        )
        for one in found.attempts
    ]
    return Delivery.of(
        found,
        state=enum_word(pb.DeliveryState, found.state or pb.DELIVERY_STATE_PENDING),
        attempts=attempts,
        next_attempt_at=timestamp(found.next_attempt_time),
        created_at=timestamp(found.create_time) or EPOCH,
    )


def _message(done: str, *, dry_run: bool) -> str:
    return "this would be removed" if dry_run else done


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f}{unit}" if unit == "B" else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.1f}TB"
