"""One report over all members of a collection."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import grpc
from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from gateway.backend import understood
from gateway.choices import Strict
from gateway.face import FaceOf
from gateway.heard import FORMATS
from gateway.naming import disposition
from gateway.problems import described
from gateway.routes.collections import CollectionId
from mesh.correlation import call_metadata
from ytcaption.v1 import collection_service_pb2 as pb

router = APIRouter(prefix="/collections", tags=["collections"])

TYPES = {
    "json": "application/json",
    "markdown": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "pdf": "application/pdf",
    "zip": "application/zip",
}
SUFFIXES = {"markdown": "md"}
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
"""Titles and speech are strangers' words: nothing in a report may run, load or send anything."""

UNSEALED = frozenset({"pdf"})
"""Browsers refuse to show a PDF in a sandbox; their readers are sandboxes themselves."""

Call = grpc.aio.UnaryStreamCall[pb.GetReportRequest, pb.GetReportResponse]


class ReportQuery(Strict):
    """Which report."""

    format: Literal["json", "markdown", "html", "pdf", "zip"] = "json"
    captions: Literal["srt", "vtt", "txt", "json", "tsv", "lrc"] = "srt"
    download: bool = False


def _responses() -> dict[int | str, dict[str, Any]]:
    kinds: dict[str, Any] = {
        kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in TYPES.values()
    }
    kinds["application/json"] = {"schema": {"type": "object"}}
    return {200: {"description": "The report, as it is written.", "content": kinds}}


@router.get(
    "/{collection_id}/report", responses=_responses() | described(404), response_class=Response
)
async def get_report(
    collection_id: CollectionId, asked: Annotated[ReportQuery, Query()], face: FaceOf
) -> Response:
    """Everything that came of a collection, in one file; `captions` is the format in a zip.

    Of a collection that runs, what there is so far.
    """
    request = pb.GetReportRequest(
        collection_id=collection_id,
        format=pb.ReportFormat.Value(f"REPORT_FORMAT_{asked.format.upper()}"),
        caption_format=FORMATS[asked.captions],
    )
    call = face.orchestrator.collections.GetReport(request, metadata=call_metadata())
    first = await _first(call)
    fallback = f"{collection_id}.{SUFFIXES.get(asked.format, asked.format)}"
    attachment = asked.download or asked.format == "zip"
    headers = {
        "Content-Disposition": disposition(first.file_name, fallback, attachment=attachment),
        "Cache-Control": "no-cache",
    }
    if asked.format not in UNSEALED:
        headers["Content-Security-Policy"] = SANDBOX
    return StreamingResponse(_bytes(call, first), media_type=TYPES[asked.format], headers=headers)


async def _first(call: Call) -> pb.GetReportResponse:
    """With it we know that there is a report; what is refused becomes a problem."""
    try:
        async for frame in call:
            return frame
    except grpc.aio.AioRpcError as error:
        raise understood(error) from error
    except BaseException:
        call.cancel()
        raise
    return pb.GetReportResponse()


async def _bytes(call: Call, first: pb.GetReportResponse) -> AsyncIterator[bytes]:
    try:
        yield first.chunk
        async for frame in call:
            yield frame.chunk
    except grpc.aio.AioRpcError as error:
        raise understood(error) from error
    finally:
        call.cancel()
