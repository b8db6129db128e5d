"""Handing in: addresses and files."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from gateway import telling, uploads
from gateway.choices import PipelineRequest, UploadQuery, options_for, priority_of
from gateway.face import Face, FaceOf
from gateway.forms import Form
from gateway.problems import RefusedError, described
from gateway.shapes import Accepted
from mesh.correlation import adopt, current, new_id
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter(tags=["handing in"])

BINARY = {"type": "string", "format": "binary"}
UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": BINARY},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": BINARY},
                }
            },
        },
    }
}


@router.post("/pipeline", status_code=202, responses=described(409, 507))
async def hand_in_address(order: PipelineRequest, face: FaceOf, response: Response) -> Accepted:
    """Accepts an address; the job is durable when this answers."""
    if order.correlation_id:
        adopt(order.correlation_id)
    request = pb.CreateJobRequest(
        source_url=order.youtube_url,
        options=options_for(order, face.settings),
        # Ours, if the caller has none: a call that is retried on its way must not make two jobs.
        request_id=order.request_id or new_id(),
        correlation_id=order.correlation_id or current(),
        force=order.force,
        caller=order.caller,
        priority=priority_of(order),
        webhook_url=order.webhook_url,
    )
    orchestrator = face.orchestrator
    created = await orchestrator.ask(orchestrator.pipeline.CreateJob, request)
    return _accepted(created.job, response)


@router.post("/uploads", status_code=202, responses=described(409, 507), openapi_extra=UPLOAD_BODY)
async def hand_in_file(
    order: Annotated[UploadQuery, Query()], request: Request, response: Response, face: FaceOf
) -> Accepted:
    """Accepts a file: as the body, or as the part `file` of a form whose other parts are options.

    It is passed on as it comes. Options may also stand in the query.
    """
    content_type = request.headers.get("content-type", "")
    body: AsyncIterator[bytes] = request.stream()
    size = request.headers.get("content-length", "")
    try:
        if content_type.lower().startswith("multipart/form-data"):
            form = Form(content_type, body)
            await form.until_file()
            order = _with_fields(order, form)
            start, body = _start(order, face), form.file()
        else:
            start = _start(order, face)
            if size.isdecimal():
                start.size_bytes = int(size)
        job = await uploads.send(face.orchestrator, start, body)
    except ClientDisconnect:
        # Nobody is there to read this; the call has ended with the body.
        raise RefusedError(400, "the body broke off") from None
    return _accepted(job, response)


def _with_fields(order: UploadQuery, form: Form) -> UploadQuery:
    """Options in the form count like those of the query, and before them."""
    given: dict[str, Any] = {"file_name": form.file_name[:1000]}
    given |= order.model_dump(exclude_unset=True) | form.fields
    try:
        return UploadQuery.model_validate(given)
    except ValidationError as error:
        problems = [{**one, "loc": ("form", *one["loc"])} for one in error.errors()]
        raise RequestValidationError(problems) from error


def _start(order: UploadQuery, face: Face) -> pb.UploadStart:
    if order.correlation_id:
        adopt(order.correlation_id)
    return pb.UploadStart(
        file_name=order.file_name,
        options=options_for(order, face.settings),
        request_id=order.request_id,
        correlation_id=order.correlation_id or current(),
        force=order.force,
        caller=order.caller,
        priority=priority_of(order),
        webhook_url=order.webhook_url,
    )


def _accepted(job: job_pb2.Job, response: Response) -> Accepted:
    response.headers["Location"] = f"/jobs/{job.job_id}"
    told = telling.summary(job)
    return Accepted(
        job_id=job.job_id,
        status=told.status,
        message=f"accepted; follow it at /jobs/{job.job_id}",
        youtube_url=told.youtube_url,
        overall_progress=told.progress,
    )
