"""RFC 9457 problem responses; the one place that maps errors to HTTP statuses."""

from collections.abc import Callable
from http import HTTPStatus
from math import ceil
from typing import Any

import grpc
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from structlog import get_logger

from mesh import correlation
from mesh.errors import MeshError
from mesh.reasons import Reason
from mesh.status import CODES, to_error

log = get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
MAX_PATH = 100
RETRY_SECONDS = 2.0
"""Retry-After of 429 and 503 responses where the error names no time."""

STATUSES: dict[grpc.StatusCode, int] = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    # Well-formed, but not available on this machine.
    grpc.StatusCode.UNIMPLEMENTED: 422,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
REASON_STATUSES: dict[Reason, int] = {
    Reason.TOO_LARGE: 413,
    Reason.FRAME_TOO_LARGE: 413,
    Reason.STORAGE_FULL: 507,
    # It is this gateway's certificate that the orchestrator does not accept, not its caller's.
    Reason.CERTIFICATE_REQUIRED: 503,
    Reason.CALLER_FORBIDDEN: 503,
}
"""Reasons with a more specific HTTP status than that of their gRPC code."""

HTTP_REASONS = {404: Reason.PAGE_NOT_FOUND, 413: Reason.TOO_LARGE, 429: Reason.RATE_LIMITED}
"""Reasons of errors raised by the HTTP framework; all others are REQUEST_INVALID."""

NOT_AN_OBJECT = "the body must be a JSON object, sent with Content-Type: application/json"


class Problem(BaseModel):
    """Why a request was rejected or failed (RFC 9457)."""

    type: str = Field(examples=["urn:ytcaption:problem:JOB_NOT_FOUND"])
    title: str = Field(description="The phrase of the HTTP status.")
    status: int
    detail: str = Field(description="One sentence for people; do not parse it.")
    reason: str = Field(description="One of the closed list in docs/errors.md.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    metadata: dict[str, str] | None = Field(
        default=None,
        description="More for programs: of QUOTA_EXCEEDED `limit`, `maximum` and `used`.",
    )
    field: str | None = Field(
        default=None, description="The invalid field, parameter or header, if one is to blame."
    )
    correlation_id: str | None = Field(
        default=None, description="Identifies the request in the logs."
    )


class RefusedError(MeshError):
    """Request rejected by the gateway itself, with an explicit HTTP status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        reason: Reason = Reason.REQUEST_INVALID,
        field: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason, retry_after_seconds=retry_after_seconds)
        self.status = status
        self.field = field


def status_of(error: MeshError) -> int:
    """Returns the HTTP status of an error."""
    if isinstance(error, RefusedError):
        return error.status
    code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
    return REASON_STATUSES.get(error.reason, STATUSES[code])


def respond(error: MeshError) -> Response:
    """Builds the problem response of an error."""
    status = status_of(error)
    problem = Problem(
        type=f"urn:ytcaption:problem:{error.reason}",
        title=_title(status),
        status=status,
        detail=str(error),
        reason=error.reason,
        retryable=error.retryable,
        metadata=error.metadata or None,
        field=getattr(error, "field", None),
        correlation_id=correlation.current() or None,
    )
    headers = {}
    retry_after = error.retry_after_seconds
    if retry_after is None and status in (429, 503):
        retry_after = RETRY_SECONDS
    if retry_after is not None:
        headers["Retry-After"] = str(max(1, ceil(retry_after)))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(
        problem.model_dump(exclude_none=True), status, headers=headers, media_type=MEDIA_TYPE
    )


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def install(app: FastAPI) -> None:
    """Registers the exception handlers: every failure of a route becomes a problem response."""
    handlers: dict[type[Exception], Callable[[Request, Any], Response]] = {
        MeshError: lambda _, error: respond(error),
        grpc.aio.AioRpcError: lambda _, error: respond(to_error(error)),
        RequestValidationError: _on_validation_error,
        HTTPException: _on_http_error,
        Exception: _on_unhandled_error,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _on_validation_error(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    if first["type"] == "json_invalid":  # its location is a character offset, not a field
        return respond(RefusedError(422, f"the body is not JSON: {first['ctx']['error']}"))
    if first["loc"] == ("body",):  # for example a form: curl -d sends one by default
        return respond(RefusedError(422, NOT_AN_OBJECT))
    # The first part is "body", "query" or "path"; the rest is the path to the field.
    field = ".".join(str(part) for part in first["loc"][1:])
    message = "there is no such field" if first["type"] == "extra_forbidden" else first["msg"]
    return respond(
        RefusedError(422, f"{field}: {message}" if field else message, field=field or None)
    )


def _on_http_error(request: Request, error: HTTPException) -> Response:
    status, path = error.status_code, request.url.path[:MAX_PATH]
    reason = HTTP_REASONS.get(status, Reason.REQUEST_INVALID)
    detail = str(error.detail)
    if detail == _title(status):  # no more than the status phrase: name the request
        detail = f"{request.method} {path}: {detail.lower()}; see /docs"
    response = respond(RefusedError(status, detail, reason=reason))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _on_unhandled_error(_: Request, error: Exception) -> Response:
    # The traceback goes to the log only: clients get no internals.
    log.error("unhandled error", exc_info=error)
    return respond(RefusedError(500, "internal error", reason=Reason.INTERNAL))


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI descriptions of the problems a route may respond with."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": _title(status), "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in sorted({*statuses, *COMMON_STATUSES})
    }


COMMON_STATUSES = (400, 401, 403, 413, 422, 429, 500, 503, 504)
"""Any route: malformed, cross-site or without the right token, over a limit, mesh unavailable."""
