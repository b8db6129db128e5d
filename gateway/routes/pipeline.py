"""Submission of jobs: by URL and by upload."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from gateway.client import create
from gateway.deps import Deps
from gateway.http.forms import MultipartForm
from gateway.http.problems import RefusedError, problem_responses
from gateway.presenters import jobs as present
from gateway.schemas.collections import CollectionRequest
from gateway.schemas.jobs import JobAccepted
from gateway.schemas.options import PipelineRequest, UploadQuery, options_for
from gateway.settings import Settings
from mesh.correlation import adopt, current
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter(tags=["submission"])

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


@router.post("/pipeline", status_code=202, responses=problem_responses(409, 507))
async def create_job(order: PipelineRequest, deps: Deps, response: Response) -> JobAccepted:
    """Accepts a URL; the job is durable when this returns."""
    request = pb.CreateJobRequest(
        source_url=order.youtube_url, **submission_fields(order, deps.settings)
    )
    created = await create(deps.orchestrator.pipeline.CreateJob, request)
    return _accepted(created.job, response)


@router.post(
    "/uploads", status_code=202, responses=problem_responses(409, 507), openapi_extra=UPLOAD_BODY
)
async def create_job_from_upload(
    order: Annotated[UploadQuery, Query()], request: Request, response: Response, deps: Deps
) -> JobAccepted:
    """Accepts a file: as the body, or as the part `file` of a form whose other parts are options.

    The file is streamed on as it arrives. Options may also be query parameters.
    """
    content_type = request.headers.get("content-type", "")
    body: AsyncIterator[bytes] = request.stream()
    size = request.headers.get("content-length", "")
    try:
        if content_type.lower().startswith("multipart/form-data"):
            form = MultipartForm(content_type, body)
            await form.read_fields()
            start = _upload_start(_with_fields(order, form), deps.settings)
            body = form.file()
        else:
            start = _upload_start(order, deps.settings)
            if size.isdecimal():
                start.size_bytes = int(size)
        job = await deps.orchestrator.upload(start, body)
    except ClientDisconnect:
        # No client is left to read this response; the upload call has ended with the body.
        raise RefusedError(400, "the body is incomplete") from None
    return _accepted(job, response)


def _with_fields(order: UploadQuery, form: MultipartForm) -> UploadQuery:
    """Adds the options of the form, which take precedence over those of the query."""
    fields: dict[str, Any] = {"file_name": form.file_name[:1000]}
    fields |= order.model_dump(exclude_unset=True) | form.fields
    try:
        return UploadQuery.model_validate(fields)
    except ValidationError as error:
        errors = [{**one, "loc": ("form", *one["loc"])} for one in error.errors()]
        raise RequestValidationError(errors) from error


def _upload_start(order: UploadQuery, settings: Settings) -> pb.UploadStart:
    return pb.UploadStart(file_name=order.file_name, **submission_fields(order, settings))


def submission_fields(
    order: PipelineRequest | UploadQuery | CollectionRequest, settings: Settings
) -> dict[str, Any]:
    """Fields that all create requests share; adopts the client's correlation id."""
    if order.correlation_id:
        adopt(order.correlation_id)
    return {
        **order.model_dump(include={"request_id", "force", "caller", "webhook_url", "group"}),
        "options": options_for(order, settings),
        "correlation_id": order.correlation_id or current(),
        "priority": job_pb2.Priority.Value(f"PRIORITY_{order.priority.upper()}"),
    }


def _accepted(job: job_pb2.Job, response: Response) -> JobAccepted:
    response.headers["Location"] = f"/jobs/{job.job_id}"
    summary = present.summary(job)
    return JobAccepted(
        job_id=job.job_id,
        status=summary.status,
        message="Pipeline iniciado com sucesso",
        youtube_url=summary.youtube_url,
        overall_progress=summary.progress,
    )
