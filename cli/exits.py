"""What the command's exit codes mean, and which one a failure gets."""

from enum import IntEnum

from mesh.errors import MeshError, TimedOutError, UnavailableError


class Exit(IntEnum):
    """Part of the command's contract: scripts branch on them."""

    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    REFUSED = 3
    UNAVAILABLE = 4
    PARTIAL = 5
    CANCELLED = 6
    INTERRUPTED = 130
    READER_GONE = 141
    TERMINATED = 143


HELP = """\
\b
Exit codes:
  0    it worked
  1    the job failed or was cancelled, or `doctor` found something missing
  2    the command was written wrongly
  3    bad input, or refused: no such file or job, an option nobody can honour
  4    the server or a part of the mesh cannot be reached or cannot work
  5    a collection is partial: a member failed or timed out, or a listing broke off
  6    a collection was cancelled
  130  interrupted (Ctrl-C)
  141  whoever read our output went away
  143  terminated (SIGTERM)
"""

REFUSING_STATUSES = frozenset(
    {
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "FAILED_PRECONDITION",
        "OUT_OF_RANGE",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "UNAUTHENTICATED",
        "UNIMPLEMENTED",
    }
)
"""gRPC statuses that mean: the same request will not work."""


class CommandError(Exception):
    """Ends the command with one line and a code."""

    def __init__(self, message: str, code: Exit, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def code_of_status(status: str) -> Exit:
    """Takes the name of a gRPC status code."""
    return Exit.REFUSED if status in REFUSING_STATUSES else Exit.UNAVAILABLE


def code_of_error(error: MeshError) -> Exit:
    """For failures that happened on this side of the wire."""
    waiting_helps = isinstance(error, UnavailableError | TimedOutError)
    return Exit.UNAVAILABLE if waiting_helps else Exit.REFUSED
