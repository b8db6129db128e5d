"""Routes of a single collection: create, read, follow, report, cancel, delete."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from google.protobuf.duration import from_timedelta
from starlette.responses import Response, StreamingResponse

from gateway.client import DELETION_SECONDS, call, create, frames
from gateway.deps import Deps
from gateway.http.file_responses import content_disposition
from gateway.http.parameters import CancelNote, CollectionId, PageToken
from gateway.http.problems import problem_responses
from gateway.presenters import collections as present
from gateway.routes.pipeline import submission_fields
from gateway.schemas.collections import (
    Collection,
    CollectionDeleted,
    CollectionDetail,
    CollectionRequest,
    DocumentList,
    ReportQuery,
    SubtaskList,
)
from gateway.schemas.options import Options, SubmissionFields, caption_format
from gateway.sse.collections import CollectionStream
from gateway.sse.stream import Position, if_available, stream_responses
from mesh.correlation import call_metadata
from mesh.messages import struct_of
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import task_pb2

router = APIRouter(prefix="/collections", tags=["collections"])

COPIED_FIELDS = (
    CollectionRequest.model_fields.keys()
    - (Options.model_fields.keys() | SubmissionFields.model_fields.keys())
    - {"timeout", "sources", "executors"}
)
"""Fields of a collection alone, which the contract has under the same names."""

CANCEL_SECONDS = 180.0
"""Deadline of a cancellation: members are stopped one by one, and there may be many."""


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

SCOPES: dict[str | None, "task_pb2.ExecutorScope.ValueType"] = {
    None: task_pb2.EXECUTOR_SCOPE_UNSPECIFIED,
    "item": task_pb2.EXECUTOR_SCOPE_ITEM,
    "collection": task_pb2.EXECUTOR_SCOPE_COLLECTION,
}
NOT_SANDBOXED = frozenset({"pdf"})
"""Browsers refuse to show a PDF in a sandbox; their PDF readers are sandboxed themselves."""


def _report_responses() -> dict[int | str, dict[str, Any]]:
    content: dict[str, Any] = {
        media_type.partition(";")[0]: {"schema": {"type": "string"}}
        for media_type in MEDIA_TYPES.values()
    }
    content["application/json"] = {"schema": {"type": "object"}}
    return {200: {"description": "The report, streamed.", "content": content}}


def _file_responses() -> dict[int | str, dict[str, Any]]:
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {200: {"description": "The file, streamed.", "content": content}}


@router.post("", status_code=202, responses=problem_responses(409, 507))
async def create_collection(order: CollectionRequest, deps: Deps, response: Response) -> Collection:
    """Accepts many recordings; the collection is durable when this returns."""
    request = pb.CreateCollectionRequest(
        **order.model_dump(include=COPIED_FIELDS), **submission_fields(order, deps.settings)
    )
    _put_specs(order, request)
    if order.timeout is not None:
        request.timeout.CopyFrom(from_timedelta(timedelta(seconds=order.timeout)))
    created = await create(deps.orchestrator.collections.CreateCollection, request)
    response.headers["Location"] = f"/collections/{created.collection.collection_id}"
    return present.collection(created.collection)


def _put_specs(order: CollectionRequest, request: pb.CreateCollectionRequest) -> None:
    for source in order.sources:
        if isinstance(source, str):
            request.sources.append(source)
        else:
            request.source_specs.add(type=source.type, parameters=struct_of(source.parameters))
    for executor in order.executors:
        request.executors.add(
            kind=executor.kind,
            parameters=struct_of(executor.parameters),
            scope=SCOPES[executor.scope],
        )


@router.get("/{collection_id}", responses=problem_responses(404))
async def get_collection(
    collection_id: CollectionId,
    deps: Deps,
    limit: Annotated[int, Query(ge=0, le=200, description="Members per page; 0: none.")] = 50,
    page_token: PageToken = "",
) -> CollectionDetail:
    """Returns a collection with one page of its members, in the order they were found."""
    request = pb.GetCollectionRequest(
        collection_id=collection_id, page_size=limit, page_token=page_token
    )
    return present.detail(await call(deps.orchestrator.collections.GetCollection, request))


@router.get(
    "/{collection_id}/events",
    responses=stream_responses("no member can change any more") | problem_responses(404),
    response_class=Response,
)
async def follow_collection(
    collection_id: CollectionId, deps: Deps, position: Position
) -> Response:
    """Streams the collection, the members that changed after the client's last event, then live.

    Events: `collection`, `member`, `subtask`, `document` (without its text), `progress`, and at
    the end `finished`.
    """
    found = await if_available(deps.orchestrator.collection(collection_id), position)
    deps.streams.check_capacity()
    stream = CollectionStream(deps.orchestrator, collection_id, position)
    return await deps.streams.resume(stream, position, ended=found is not None and found.settled)


@router.get("/{collection_id}/subtasks", responses=problem_responses(404))
async def list_subtasks(
    collection_id: CollectionId,
    deps: Deps,
    limit: Annotated[int, Query(ge=1, le=200, description="Subtasks per page.")] = 50,
    page_token: PageToken = "",
) -> SubtaskList:
    """Returns what the collectors and executors of a collection do, by number."""
    request = pb.ListSubtasksRequest(
        collection_id=collection_id, page_size=limit, page_token=page_token
    )
    page = await call(deps.orchestrator.collections.ListSubtasks, request)
    return SubtaskList(
        subtasks=[present.subtask(one, collection_id) for one in page.subtasks],
        next_page_token=page.next_page_token,
    )


@router.get("/{collection_id}/documents", responses=problem_responses(404))
async def list_documents(
    collection_id: CollectionId,
    deps: Deps,
    limit: Annotated[int, Query(ge=1, le=200, description="Documents per page.")] = 50,
    page_token: PageToken = "",
) -> DocumentList:
    """Returns the texts that the collectors of a collection found; a page may be shorter."""
    request = pb.ListDocumentsRequest(
        collection_id=collection_id, page_size=limit, page_token=page_token
    )
    page = await call(deps.orchestrator.collections.ListDocuments, request)
    return DocumentList(
        documents=[present.document(one) for one in page.documents],
        next_page_token=page.next_page_token,
    )


@router.get(
    "/{collection_id}/subtasks/{number}/files/{name}",
    responses=_file_responses() | problem_responses(404),
    response_class=Response,
)
async def get_result_file(
    collection_id: CollectionId,
    number: Annotated[int, Path(ge=1, le=2**31 - 1)],
    name: Annotated[str, Path(max_length=200)],
    deps: Deps,
) -> Response:
    """Returns a file that an executor made."""
    request = pb.GetResultFileRequest(collection_id=collection_id, subtask=number, name=name)
    stream = frames(deps.orchestrator.collections.GetResultFile(request, metadata=call_metadata()))
    first = await anext(stream, pb.GetResultFileResponse())
    headers = {
        "Content-Disposition": content_disposition(first.file.name, "result", attachment=True),
        "Content-Length": str(first.file.size_bytes),
        # It is a stranger's: it must not run, load or send anything.
        "Content-Security-Policy": SANDBOX,
    }
    # The type is the executor's word, and only shown to people elsewhere.
    return StreamingResponse(
        _bytes(first, stream), media_type="application/octet-stream", headers=headers
    )


async def _bytes(
    first: pb.GetResultFileResponse, rest: AsyncGenerator[pb.GetResultFileResponse, None]
) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield first.chunk
        async for frame in rest:
            yield frame.chunk


@router.post("/{collection_id}/cancel", responses=problem_responses(404))
async def cancel_collection(
    collection_id: CollectionId, deps: Deps, note: CancelNote = ""
) -> Collection:
    """Stops discovery and every unfinished member; transcripts so far are kept."""
    request = pb.CancelCollectionRequest(collection_id=collection_id, note=note)
    done = await call(deps.orchestrator.collections.CancelCollection, request, CANCEL_SECONDS)
    return present.collection(done.collection)


@router.delete("/{collection_id}", responses=problem_responses(404))
async def delete_collection(collection_id: CollectionId, deps: Deps) -> CollectionDeleted:
    """Deletes a collection with its members' jobs; a running one is stopped first."""
    request = pb.DeleteCollectionRequest(collection_id=collection_id)
    done = await call(deps.orchestrator.collections.DeleteCollection, request, DELETION_SECONDS)
    return CollectionDeleted.of(done, collection_id=collection_id)


@router.get(
    "/{collection_id}/report",
    responses=_report_responses() | problem_responses(404),
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
    stream = frames(deps.orchestrator.collections.GetReport(request, metadata=call_metadata()))
    # Awaited before the response starts: an error becomes a problem response.
    first = await anext(stream, pb.GetReportResponse())
    fallback = f"{collection_id}.{SUFFIXES.get(query.format, query.format)}"
    attachment = query.download or query.format == "zip"
    headers = {
        "Content-Disposition": content_disposition(
            first.file_name, fallback, attachment=attachment
        ),
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
