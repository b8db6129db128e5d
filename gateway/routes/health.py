"""How the mesh is, what it can do, and figures for Prometheus."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gateway import telling
from gateway.face import Face, FaceOf
from gateway.mesh_shapes import Alive, Capabilities, Component, Health, Model, Translation
from gateway.problems import described
from gateway.routes.admin import OLD_NAMES
from gateway.shapes import CAPTION_FORMATS
from mesh.errors import MeshError
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter(tags=["health"])

SERVICE = "ytcaption-orchestrator"
VERSION = version("ytcaption")
ASK_SECONDS = 10.0


UNHEALTHY: dict[int | str, dict[str, Any]] = {
    503: {"description": "A job accepted now would not run.", "model": Health}
}


@router.get("/health", responses=described() | UNHEALTHY)
async def health(face: FaceOf, response: Response) -> Health:
    """How every part is; 503 if a job would not run now."""
    try:
        found = await face.orchestrator.ask(
            face.orchestrator.admin.GetHealth, admin_pb.GetHealthRequest(), ASK_SECONDS
        )
    except MeshError as error:
        found = _out_of_reach(face, str(error))
    parts = {
        part.name: Component(
            status="healthy" if part.healthy else "unhealthy",
            detail=part.detail,
            preparing=telling.preparing(part.preparing) if part.HasField("preparing") else None,
        )
        for part in found.components
    }
    if not found.healthy:
        response.status_code = 503
    return Health(
        status="healthy" if found.healthy else "unhealthy",
        service=SERVICE,
        version=found.version,
        timestamp=datetime.now(UTC),
        microservices={
            old: "healthy" if parts[name].status == "healthy" else parts[name].detail
            for name, old in OLD_NAMES.items()
            if name in parts
        },
        components={"gateway": Component(status="healthy", detail="serving", preparing=None)}
        | parts,
    )


def _out_of_reach(face: Face, error: str) -> admin_pb.GetHealthResponse:
    unknown = "unknown: the orchestrator does not answer"
    parts = {"orchestrator": error, **dict.fromkeys(("nats", *OLD_NAMES), unknown)}
    return admin_pb.GetHealthResponse(
        version=VERSION,
        components=[
            admin_pb.ComponentHealth(name=name, detail=detail, address=face.settings.orchestrator)
            for name, detail in parts.items()
        ],
    )


@router.get("/live", responses=described())
async def live() -> Alive:
    """That the gateway itself listens, whatever the rest does."""
    return Alive(status="alive")


@router.get("/capabilities", responses=described())
async def capabilities(face: FaceOf) -> Capabilities:
    """What a job may ask for here."""
    orchestrator = face.orchestrator
    found = await orchestrator.ask(orchestrator.pipeline.GetAbilities, pb.GetAbilitiesRequest())
    limits = found.limits
    return Capabilities(
        models=[
            Model(
                name=one.name,
                languages=list(one.languages),
                loaded=one.loaded,
                selected=one.selected,
            )
            for one in found.models
        ],
        languages=sorted({tag for one in found.models if one.selected for tag in one.languages}),
        translations=[
            Translation(
                model=one.model,
                source_languages=list(one.source_languages),
                target_languages=list(one.target_languages),
            )
            for one in found.translations
        ],
        options_unavailable={one.option: one.why_not for one in found.options if not one.honoured},
        formats=list(CAPTION_FORMATS),
        limits={
            "max_upload_bytes": min(limits.max_upload_bytes, face.settings.max_upload_bytes),
            "max_body_bytes": face.settings.max_body_bytes,
            "rate_per_second": face.settings.rate_per_second,
            "max_attempts": limits.max_attempts,
            "attempt_seconds": limits.attempt_time.ToTimedelta().total_seconds(),
            "cache_seconds": limits.cache_time.ToTimedelta().total_seconds(),
            "retention_seconds": limits.retention_time.ToTimedelta().total_seconds(),
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
        **described(),
    },
)
async def metrics() -> Response:
    """Figures of the gateway."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
