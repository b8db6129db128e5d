"""Exit codes of the command, and the code each failure maps to."""

from enum import IntEnum

from mesh.errors import MeshError, TimedOutError, UnavailableError


class Exit(IntEnum):
    """The exit codes; a contract, because scripts branch on them."""

    OK = 0
    JOB_FAILED = 1
    NOTHING_FOUND = 1
    USAGE = 2
    REFUSED = 3
    UNAVAILABLE = 4
    PARTIAL = 5
    CANCELLED = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


HELP = """\
\b
Exit codes:
  0    success
  1    the job failed or was cancelled, `doctor` found something missing, or `search` found nothing
  2    usage error: an unknown command or option, or a value that does not parse
  3    bad input, or refused: no such file or job, an option the mesh does not support
  4    the server or a part of the mesh is unreachable or cannot work
  5    a collection is partial: a member failed or timed out, or a listing broke off
  6    a collection was cancelled
  130  interrupted (Ctrl-C)
  141  the reader of stdout closed it (broken pipe)
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
"""gRPC statuses for which repeating the same request is pointless."""


class CommandError(Exception):
    """Ends the command with one line on stderr and an exit code."""

    def __init__(self, message: str, code: Exit, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def code_of_status(status: str) -> Exit:
    """Maps the name of a gRPC status code to an exit code."""
    return Exit.REFUSED if status in REFUSING_STATUSES else Exit.UNAVAILABLE


def code_of_error(error: MeshError) -> Exit:
    """Maps a failure on the client side to an exit code."""
    retryable = isinstance(error, UnavailableError | TimedOutError)
    return Exit.UNAVAILABLE if retryable else Exit.REFUSED
