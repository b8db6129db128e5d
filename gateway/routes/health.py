"""Routes of health, liveness, capabilities and Prometheus metrics."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gateway.client import call
from gateway.deps import Dependencies, Deps
from gateway.http.parameters import Naive
from gateway.http.problems import problem_responses
from gateway.presenters.jobs import preparing, seconds
from gateway.presenters.old_form import in_old_form
from gateway.schemas.mesh import (
    LEGACY_SERVICE_NAMES,
    Alive,
    Capabilities,
    CaptionFormat,
    Component,
    Health,
    Model,
    Translation,
)
from mesh.errors import MeshError
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter(tags=["health"])

SERVICE = "ytcaption-orchestrator"
VERSION = version("ytcaption")
ASK_SECONDS = 10.0

UNHEALTHY: dict[int | str, dict[str, Any]] = {
    503: {"description": "A job accepted now would not run.", "model": Health}
}


@router.get("/health", responses=problem_responses() | UNHEALTHY)
async def health(deps: Deps, response: Response, naive_timestamps: Naive = False) -> Health:
    """Health of every component; 503 if a job accepted now would not run."""
    try:
        found = await call(
            deps.orchestrator.admin.GetHealth, admin_pb.GetHealthRequest(), ASK_SECONDS
        )
    except MeshError as error:
        found = _unreachable(deps, str(error))
    parts = {
        part.name: Component(
            status="healthy" if part.healthy else "unhealthy",
            detail=part.detail,
            preparing=preparing(part.preparing) if part.HasField("preparing") else None,
        )
        for part in found.components
    }
    if not found.healthy:
        response.status_code = 503
    answer = Health(
        status="healthy" if found.healthy else "unhealthy",
        service=SERVICE,
        version=found.version,
        timestamp=datetime.now(UTC),
        microservices={
            old: "healthy" if parts[name].status == "healthy" else parts[name].detail
            for name, old in LEGACY_SERVICE_NAMES.items()
            if name in parts
        },
        components={"gateway": Component(status="healthy", detail="serving", preparing=None)}
        | parts,
    )
    return in_old_form(answer, naive_timestamps=naive_timestamps)


def _unreachable(deps: Dependencies, error: str) -> admin_pb.GetHealthResponse:
    unknown = "unknown: the orchestrator does not answer"
    parts = {"orchestrator": error, **dict.fromkeys(("nats", *LEGACY_SERVICE_NAMES), unknown)}
    return admin_pb.GetHealthResponse(
        version=VERSION,
        components=[
            admin_pb.ComponentHealth(name=name, detail=detail, address=deps.settings.orchestrator)
            for name, detail in parts.items()
        ],
    )


@router.get("/live", responses=problem_responses())
async def live() -> Alive:
    """Liveness of the gateway alone, whatever the rest of the mesh does."""
    return Alive(status="alive")


@router.get("/capabilities", responses=problem_responses())
async def capabilities(deps: Deps) -> Capabilities:
    """Models, languages, options, formats and limits of this mesh."""
    found = await call(deps.orchestrator.pipeline.GetAbilities, pb.GetAbilitiesRequest())
    limits = found.limits
    return Capabilities(
        models=[Model.of(one) for one in found.models],
        languages=sorted({tag for one in found.models if one.selected for tag in one.languages}),
        translations=[Translation.of(one) for one in found.translations],
        options_unavailable={one.option: one.why_not for one in found.options if not one.honoured},
        formats=[one.name for one in found.caption_formats],
        caption_formats=[CaptionFormat.of(one) for one in found.caption_formats],
        limits={
            "max_upload_bytes": min(limits.max_upload_bytes, deps.settings.max_upload_bytes),
            "max_body_bytes": deps.settings.max_body_bytes,
            "rate_per_second": deps.settings.rate_per_second,
            "max_attempts": limits.max_attempts,
            "attempt_seconds": seconds(limits.attempt_time),
            "cache_seconds": seconds(limits.cache_time),
            "retention_seconds": seconds(limits.retention_time),
        },
        silent_stages=list(found.silent_stages),
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problem_responses(),
    },
)
async def metrics(deps: Deps) -> Response:
    """Metrics of the gateway; the orchestrator says whether the client has a role."""
    await call(deps.orchestrator.auth.GetCaller, auth_pb.GetCallerRequest())
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
