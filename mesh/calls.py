"""Client streams that keep the server's word."""

from typing import Any, TypeVar

CallT = TypeVar("CallT")


def truthful(call: CallT) -> CallT:
    """Gives back the call, now telling the status the server really sent.

    A server may refuse a stream while its caller is still writing. grpc.aio (1.85) then marks the
    call INTERNAL "Internal error from Core" as soon as the write fails, and the reason that is
    already on its way is lost: in nearly half of all such calls on loopback. Here the failed write
    waits for the real status instead. Must be called in the same step that made the call.
    """
    call._cython_call = _PatientCall(call._cython_call)  # type: ignore[attr-defined]
    return call


class _PatientCall:
    def __init__(self, call: Any) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def set_internal_error(self, error: str) -> None:
        """The status follows by itself: the stream that refused the write ends with one."""
