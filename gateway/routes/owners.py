"""Everything about one owner: export, erasure, retention."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from google.protobuf.duration import from_timedelta
from starlette.responses import Response, StreamingResponse

from gateway.client import call, frames
from gateway.deps import Deps
from gateway.http.file_responses import content_disposition
from gateway.http.problems import problem_responses
from gateway.schemas.mesh import (
    ErasedCounts,
    EraseOptions,
    EraseResult,
    OwnerRetention,
    OwnerRetentionList,
    RetentionOptions,
)
from mesh.correlation import call_metadata
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import owner_pb2

router = APIRouter(prefix="/owners", tags=["owners"])

Owner = Annotated[str, Query(max_length=128, description="The subject of the owner's tokens.")]
EXPORT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One zip, sent while it is made; `manifest.json` has each file's sha256.",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/export", responses=EXPORT_RESPONSES | problem_responses(), response_class=Response)
async def export_owner(deps: Deps, owner: Owner = "") -> Response:
    """Everything stored about an owner, by default the client; another's needs the role admin."""
    request = pb.ExportOwnerRequest(owner=owner)
    stream = frames(deps.orchestrator.admin.ExportOwner(request, metadata=call_metadata()))
    # Awaited before the response starts: an error becomes a problem response.
    first = await anext(stream, pb.ExportOwnerResponse())
    disposition = content_disposition(first.file_name, "export.zip", attachment=True)
    return StreamingResponse(
        _chunks(first, stream),
        media_type="application/zip",
        headers={"Content-Disposition": disposition},
    )


async def _chunks(
    first: pb.ExportOwnerResponse, rest: AsyncGenerator[pb.ExportOwnerResponse, None]
) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield first.chunk
        async for frame in rest:
            yield frame.chunk


@router.delete("", responses=problem_responses())
async def erase_owner(
    deps: Deps,
    query: Annotated[EraseOptions, Query()],
    body: Annotated[EraseOptions | None, Body()] = None,
) -> EraseResult:
    """Erases everything stored about an owner; what was begun is finished without the client."""
    options = body or query
    request = pb.EraseOwnerRequest(
        owner=options.owner, confirmation=options.confirmation, dry_run=options.dry_run
    )
    last = pb.EraseOwnerResponse()  # the one with `finished`
    stream = frames(deps.orchestrator.admin.EraseOwner(request, metadata=call_metadata()))
    async with aclosing(stream) as updates:
        async for update in updates:
            last = update
    return EraseResult(
        owner=options.owner,
        dry_run=options.dry_run,
        removed=ErasedCounts.of(last.removed),
        remarks=list(last.remarks),
    )


@router.get("/retention", responses=problem_responses())
async def list_retentions(deps: Deps) -> OwnerRetentionList:
    """The owners whose ended work is kept for a time of their own."""
    found = await call(deps.orchestrator.admin.ListOwnerRetentions, pb.ListOwnerRetentionsRequest())
    return OwnerRetentionList(retentions=[_retention(one) for one in found.retentions])


@router.put("/retention", responses=problem_responses())
async def set_retention(
    deps: Deps, options: Annotated[RetentionOptions, Query()]
) -> OwnerRetention:
    """Sets how long ended work of an owner is kept; without `days` as the settings say."""
    request = pb.SetOwnerRetentionRequest(owner=options.owner)
    if options.days is not None:
        request.retention.CopyFrom(from_timedelta(timedelta(days=options.days)))
    return _retention((await call(deps.orchestrator.admin.SetOwnerRetention, request)).retention)


def _retention(found: owner_pb2.OwnerRetention) -> OwnerRetention:
    days = None
    if found.HasField("retention"):
        days = found.retention.ToTimedelta() / timedelta(days=1)
    return OwnerRetention(owner=found.owner, days=days)
