"""Failures a caller may see. None of them knows about gRPC: see mesh.status.

MeshError
├── InvalidRequestError   change the request
├── NotFoundError         nothing has that id
├── UnsupportedError      this machine or this version cannot do it
├── SourceRefusedError    the video site said no, for good
├── UnusableMediaError    the bytes arrived, but hold nothing we can hear
├── LimitExceededError    too long, too large, too full
├── TimedOutError         it took too long, or stood still
├── UnavailableError      the same request may work later
└── InternalError         a fault of ours
"""

from mesh.reasons import RETRYABLE, Reason


class MeshError(Exception):
    """Base of every failure meant for a caller; its text is shown to them."""

    def __init__(
        self, message: str, *, reason: Reason, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        """Stable UPPER_SNAKE_CASE word a program may branch on."""
        self.retry_after_seconds = retry_after_seconds
        """How long to wait before the next try, if somebody said so."""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.reason in RETRYABLE


class InvalidRequestError(MeshError):
    """The request can never succeed as written."""


class NotFoundError(MeshError):
    """The named thing does not exist."""


class UnsupportedError(MeshError):
    """Well-formed, but this machine or this version cannot do it."""


class SourceRefusedError(MeshError):
    """The video site will not serve this video to us."""


class UnusableMediaError(MeshError):
    """The bytes arrived, but hold nothing we can hear."""


class LimitExceededError(MeshError):
    """A limit of ours, or of the disk, was reached."""


class TimedOutError(MeshError):
    """It took longer than allowed, or made no progress for too long."""


class UnavailableError(MeshError):
    """Something we lean on is down or full; retry with backoff."""


class InternalError(MeshError):
    """A fault of ours; the log of the service that raised it knows more."""
