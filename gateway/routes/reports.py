"""Reports: one file over all members of a collection."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from gateway.client import frames
from gateway.deps import Deps
from gateway.http.file_responses import content_disposition
from gateway.http.parameters import CollectionId
from gateway.http.problems import problem_responses
from gateway.schemas.collections import ReportQuery
from gateway.schemas.options import caption_format
from mesh.correlation import call_metadata
from ytcaption.v1 import collection_service_pb2 as pb

router = APIRouter(prefix="/collections", tags=["collections"])

MEDIA_TYPES = {
    "json": "application/json",
    "markdown": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "pdf": "application/pdf",
    "zip": "application/zip",
}
SUFFIXES = {"markdown": "md"}
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
"""Titles and speech are untrusted: a report must not run, load or send anything."""

NOT_SANDBOXED = frozenset({"pdf"})
"""Browsers refuse to show a PDF in a sandbox; their PDF readers are sandboxed themselves."""


def _responses() -> dict[int | str, dict[str, Any]]:
    content: dict[str, Any] = {
        media_type.partition(";")[0]: {"schema": {"type": "string"}}
        for media_type in MEDIA_TYPES.values()
    }
    content["application/json"] = {"schema": {"type": "object"}}
    return {200: {"description": "The report, streamed.", "content": content}}


@router.get(
    "/{collection_id}/report",
    responses=_responses() | problem_responses(404),
    response_class=Response,
)
async def get_report(
    collection_id: CollectionId, query: Annotated[ReportQuery, Query()], deps: Deps
) -> Response:
    """Returns the results of a collection in one file; while it runs, the results so far."""
    request = pb.GetReportRequest(
        collection_id=collection_id,
        format=pb.ReportFormat.Value(f"REPORT_FORMAT_{query.format.upper()}"),
        caption_format=caption_format(query.captions),
    )
    call = deps.orchestrator.collections.GetReport(request, metadata=call_metadata())
    stream = frames(call)
    # Awaited before the response starts: an error becomes a problem response.
    first = await anext(stream, pb.GetReportResponse())
    fallback = f"{collection_id}.{SUFFIXES.get(query.format, query.format)}"
    attachment = query.download or query.format == "zip"
    headers = {
        "Content-Disposition": content_disposition(
            first.file_name, fallback, attachment=attachment
        ),
        "Cache-Control": "no-cache",
    }
    if query.format not in NOT_SANDBOXED:
        headers["Content-Security-Policy"] = SANDBOX
    return StreamingResponse(
        _chunks(first, stream), media_type=MEDIA_TYPES[query.format], headers=headers
    )


async def _chunks(
    first: pb.GetReportResponse, rest: AsyncGenerator[pb.GetReportResponse, None]
) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield first.chunk
        async for frame in rest:
            yield frame.chunk
