"""Client streams: one `start`, then data frames of at most 64 KiB; and the status they end with."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason

if TYPE_CHECKING:  # engines need only the size of a frame
    from google.protobuf.message import Message

MAX_FRAME_BYTES = 64 * 1024


CallT = TypeVar("CallT")


async def read_start(frames: "AsyncIterator[Message]") -> Any:
    """The `start` of the first message with `oneof frame { start, <data> }`; else raises."""
    async for frame in frames:
        if frame.WhichOneof("frame") == "start":
            return frame.start  # type: ignore[attr-defined] # the oneof says so
        break
    raise InvalidRequestError("the first frame must be `start`", reason=Reason.START_MISSING)


async def read_data(frames: "AsyncIterator[Message]", field: str) -> AsyncIterator[bytes]:
    """The data of every later frame, in order; anything else raises."""
    async for frame in frames:
        kind = frame.WhichOneof("frame")
        if kind == "start":
            raise InvalidRequestError("`start` was sent twice", reason=Reason.START_REPEATED)
        if kind != field:
            raise InvalidRequestError(f"a frame must carry `{field}`", reason=Reason.FRAME_EMPTY)
        data: bytes = getattr(frame, field)
        if len(data) > MAX_FRAME_BYTES:
            raise InvalidRequestError(
                f"a frame of {len(data)} bytes is over the {MAX_FRAME_BYTES} allowed",
                reason=Reason.FRAME_TOO_LARGE,
            )
        yield data


async def joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The first bytes, then the rest."""
    yield first
    async for data in rest:
        yield data


async def framed(parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same bytes in whole frames; only the last may be shorter."""
    waiting = bytearray()
    async with aclosing(parts):
        async for part in parts:
            waiting += part
            while len(waiting) >= MAX_FRAME_BYTES:
                yield bytes(waiting[:MAX_FRAME_BYTES])
                del waiting[:MAX_FRAME_BYTES]
    if waiting:
        yield bytes(waiting)


def cut(data: bytes, size: int = MAX_FRAME_BYTES) -> Iterator[bytes]:
    """The data in pieces of at most that size."""
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]


def truthful(call: CallT) -> CallT:
    """Returns the call, changed so that it ends with the status the server sent.

    A server may refuse a stream while the client is still writing. grpc.aio (1.85) then marks the
    call INTERNAL "Internal error from Core" as soon as the write fails, and the server's
    status, which is already on its way, is lost: in nearly half of all such calls on loopback. Here
    the failed write waits for that status instead. Call it in the same step that made the call.
    """
    call._cython_call = _StatusPreservingCall(call._cython_call)  # type: ignore[attr-defined]
    return call


class _StatusPreservingCall:
    def __init__(self, call: Any) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def set_internal_error(self, error: str) -> None:
        """Does nothing: the stream that refused the write ends with the server's status."""
