"""Errors a caller may see; independent of gRPC, see mesh.status.

MeshError
├── InvalidRequestError   change the request
├── UnauthenticatedError  the caller did not show who it is
├── ForbiddenError        this caller may not do that
├── NotFoundError         no object has that id
├── UnsupportedError      not possible on this machine or in this version
├── SourceRefusedError    the site permanently refuses this video
├── UnusableMediaError    the bytes arrived, but hold no usable audio
├── LimitExceededError    too long, too large, too full
├── TimedOutError         it took too long, or made no progress
├── UnavailableError      the same request may work later
└── InternalError         a bug in the service
"""

from collections.abc import Mapping
from typing import Any

from mesh.reasons import RETRYABLE, Reason


class MeshError(Exception):
    """Base of every error meant for a caller; its message is shown to them."""

    def __init__(
        self,
        message: str,
        *,
        reason: Reason,
        retry_after_seconds: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        """Stable UPPER_SNAKE_CASE word a program may branch on."""
        self.retry_after_seconds = retry_after_seconds
        """How long to wait before the next attempt, if known."""
        self.metadata = dict(metadata or {})
        """What else a program may want to know, such as which limit was reached."""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.reason in RETRYABLE


class InvalidRequestError(MeshError):
    """The request can never succeed as written; the reason tells more where a program needs it."""

    def __init__(
        self, message: str, *, reason: Reason = Reason.REQUEST_INVALID, **more: Any
    ) -> None:
        super().__init__(message, reason=reason, **more)


class UnauthenticatedError(MeshError):
    """The caller did not show who it is."""


class ForbiddenError(MeshError):
    """The caller is known, and may not do that."""


class NotFoundError(MeshError):
    """The named thing does not exist."""


class UnsupportedError(MeshError):
    """The request is valid, but not possible on this machine or in this version."""


class SourceRefusedError(MeshError):
    """The site permanently refuses to serve this video."""


class UnusableMediaError(MeshError):
    """The bytes arrived, but hold no usable audio."""


class LimitExceededError(MeshError):
    """A configured limit, or the capacity of the disk, was reached."""


class TimedOutError(MeshError):
    """It took longer than allowed, or made no progress for too long."""


class UnavailableError(MeshError):
    """A dependency is down or overloaded; retry with backoff."""


class InternalError(MeshError):
    """A bug in the service; its log has the details."""
