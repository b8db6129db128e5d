"""Maps MeshError to gRPC statuses and back; no other module does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration import from_timedelta, to_timedelta
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from structlog import get_logger

from mesh.errors import (
    ForbiddenError,
    InternalError,
    InvalidRequestError,
    LimitExceededError,
    MeshError,
    NotFoundError,
    SourceRefusedError,
    TimedOutError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedError,
    UnusableMediaError,
)
from mesh.reasons import Reason

log = get_logger(__name__)

DOMAIN = "ytcaption"
RETRYABLE_KEY = "retryable"
"""In the metadata of every ErrorInfo."""

CODES: dict[type[MeshError], grpc.StatusCode] = {
    InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    ForbiddenError: grpc.StatusCode.PERMISSION_DENIED,
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    UnsupportedError: grpc.StatusCode.UNIMPLEMENTED,
    SourceRefusedError: grpc.StatusCode.FAILED_PRECONDITION,
    UnusableMediaError: grpc.StatusCode.INVALID_ARGUMENT,
    LimitExceededError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    TimedOutError: grpc.StatusCode.DEADLINE_EXCEEDED,
    UnavailableError: grpc.StatusCode.UNAVAILABLE,
    InternalError: grpc.StatusCode.INTERNAL,
}


def to_status(error: MeshError) -> grpc.Status:
    """Status plus an ErrorInfo detail, so callers never parse the message."""
    code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
    info = Packed()
    info.Pack(
        ErrorInfo(
            reason=error.reason,
            domain=DOMAIN,
            metadata=error.metadata | {RETRYABLE_KEY: str(error.retryable).lower()},
        )
    )
    details = [info]
    if error.retry_after_seconds is not None:
        retry = Packed()
        wait = from_timedelta(timedelta(seconds=error.retry_after_seconds))
        retry.Pack(RetryInfo(retry_delay=wait))
        details.append(retry)
    return rpc_status.to_status(Status(code=code.value[0], message=str(error), details=details))


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """The reason in the server's ErrorInfo, or "" if there is none."""
    info = ErrorInfo()
    return str(info.reason) if _find(error, info) else ""


def metadata_of(error: grpc.aio.AioRpcError) -> dict[str, str]:
    """What the server's ErrorInfo says besides its reason and whether to retry."""
    info = ErrorInfo()
    found = dict(info.metadata) if _find(error, info) else {}
    found.pop(RETRYABLE_KEY, None)
    return found


def retry_after_of(error: grpc.aio.AioRpcError) -> float | None:
    """Seconds to wait from the server's RetryInfo, or None if there is none."""
    retry = RetryInfo()
    return to_timedelta(retry.retry_delay).total_seconds() if _find(error, retry) else None


def _find(error: grpc.aio.AioRpcError, kind: ErrorInfo | RetryInfo) -> bool:
    """Fills the message with the status detail of its type, if there is one."""
    try:
        status = rpc_status.from_call(error)  # type: ignore[arg-type] # has every method it calls
    except ValueError:  # our deadline passed as the server's status arrived, and is what counts
        return False
    return status is not None and any(detail.Unpack(kind) for detail in status.details)


def to_error(error: grpc.aio.AioRpcError) -> MeshError:
    """The error the called service raised, rebuilt from its status."""
    kinds = {code: kind for kind, code in reversed(CODES.items())}
    kind = kinds.get(error.code(), InternalError)
    try:
        reason = Reason(reason_of(error))
    except ValueError:  # the service died, or a proxy answered in its place
        kind, reason = _WITHOUT_REASON.get(error.code(), (kind, Reason.INTERNAL))
    return kind(
        error.details() or error.code().name,
        reason=reason,
        retry_after_seconds=retry_after_of(error),
        metadata=metadata_of(error),
    )


_WITHOUT_REASON: dict[grpc.StatusCode, tuple[type[MeshError], Reason]] = {
    grpc.StatusCode.UNAVAILABLE: (UnavailableError, Reason.STAGE_UNAVAILABLE),
    # A service that shuts down cancels its running calls.
    grpc.StatusCode.CANCELLED: (UnavailableError, Reason.STAGE_UNAVAILABLE),
    grpc.StatusCode.DEADLINE_EXCEEDED: (TimedOutError, Reason.DEADLINE),
    grpc.StatusCode.UNIMPLEMENTED: (UnsupportedError, Reason.NOT_IMPLEMENTED),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (LimitExceededError, Reason.FRAME_TOO_LARGE),
}


@asynccontextmanager
async def errors_as_statuses(context: Any, method: str) -> AsyncIterator[None]:
    """Turns an exception of the servicer into a gRPC status."""
    try:
        yield
    except MeshError as error:
        await abort(context, error)
    except grpc.aio.AbortError:
        raise
    except NotImplementedError:
        missing = UnsupportedError(f"{method} is not implemented", reason=Reason.NOT_IMPLEMENTED)
        await abort(context, missing)
    except Exception:
        # Callers get no internals; the traceback goes to the log.
        log.exception("unhandled error", method=method)
        await abort(context, InternalError("internal error", reason=Reason.INTERNAL))


async def abort(context: Any, error: MeshError) -> None:
    """Ends a call with the status of an error."""
    status = to_status(error)
    await context.abort(status.code, status.details, status.trailing_metadata)
