"""What went wrong, as RFC 9457 has it; the one place where our errors become HTTP statuses."""

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
"""What we advise where nobody knows better."""

STATUSES: dict[grpc.StatusCode, int] = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    # Well-formed, but not on this machine.
    grpc.StatusCode.UNIMPLEMENTED: 422,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
SPECIAL: dict[Reason, int] = {
    Reason.TOO_LARGE: 413,
    Reason.FRAME_TOO_LARGE: 413,
    Reason.STORAGE_FULL: 507,
}
"""Where HTTP has a better word than that of the code."""

REASONS = {404: Reason.PAGE_NOT_FOUND, 413: Reason.TOO_LARGE, 429: Reason.RATE_LIMITED}
"""Of what HTTP itself refuses; the rest is REQUEST_INVALID."""

NO_OBJECT = "the body must be a JSON object, sent with Content-Type: application/json"


class Problem(BaseModel):
    """Why a request was refused or failed."""

    type: str = Field(examples=["urn:ytcaption:problem:JOB_NOT_FOUND"])
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(description="One sentence for a person; never parsed.")
    reason: str = Field(description="From the closed list in docs/errors.md.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    field: str | None = Field(
        default=None, description="The part of the request that is wrong, if one is."
    )
    correlation_id: str | None = Field(default=None, description="Find it in the logs.")


class RefusedError(MeshError):
    """Refused by the gateway itself, with a status of its own."""

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
    """The HTTP status of a failure."""
    if isinstance(error, RefusedError):
        return error.status
    code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
    return SPECIAL.get(error.reason, STATUSES[code])


def respond(error: MeshError) -> Response:
    """The failure as the caller gets it."""
    status = status_of(error)
    problem = Problem(
        type=f"urn:ytcaption:problem:{error.reason}",
        title=_title(status),
        status=status,
        detail=str(error),
        reason=error.reason,
        retryable=error.retryable,
        field=getattr(error, "field", None),
        correlation_id=correlation.current() or None,
    )
    headers = {}
    wait = error.retry_after_seconds
    if wait is None and status in (429, 503):
        wait = RETRY_SECONDS
    if wait is not None:
        headers["Retry-After"] = str(max(1, ceil(wait)))
    return JSONResponse(
        problem.model_dump(exclude_none=True), status, headers=headers, media_type=MEDIA_TYPE
    )


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def install(app: FastAPI) -> None:
    """From here on, every failure of a route becomes a problem."""
    handlers: dict[type[Exception], Callable[[Request, Any], Response]] = {
        MeshError: lambda _, error: respond(error),
        grpc.aio.AioRpcError: lambda _, error: respond(to_error(error)),
        RequestValidationError: _on_invalid,
        HTTPException: _on_http,
        Exception: _on_unforeseen,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _on_invalid(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    if first["type"] == "json_invalid":  # its place is a number of characters, not a field
        return respond(RefusedError(422, f"the body is not JSON: {first['ctx']['error']}"))
    if first["loc"] == ("body",):  # curl -d alone sends a form
        return respond(RefusedError(422, NO_OBJECT))
    # "body", "query" or "path", then the names within.
    place = ".".join(str(part) for part in first["loc"][1:])
    said = "there is no such field" if first["type"] == "extra_forbidden" else first["msg"]
    return respond(RefusedError(422, f"{place}: {said}" if place else said, field=place or None))


def _on_http(request: Request, error: HTTPException) -> Response:
    status, path = error.status_code, request.url.path[:MAX_PATH]
    reason = REASONS.get(status, Reason.REQUEST_INVALID)
    said = str(error.detail)
    if said == _title(status):  # nothing but the status: who asked wants to know what for
        said = f"{request.method} {path}: {said.lower()}; see /docs"
    answer = respond(RefusedError(status, said, reason=reason))
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def _on_unforeseen(_: Request, error: Exception) -> Response:
    # The traceback stays here: callers get no internals.
    log.error("unhandled error", exc_info=error)
    return respond(RefusedError(500, "internal error", reason=Reason.INTERNAL))


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Problems a route may answer with, for its OpenAPI description."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": _title(status), "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in sorted({*statuses, *ANY_ROUTE})
    }


ANY_ROUTE = (400, 403, 413, 422, 429, 500, 503, 504)
"""What any request may come to: nonsense, a foreign page, too much, or a mesh that is down."""
