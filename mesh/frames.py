"""The grammar of our client streams: one `start`, then data frames of at most 64 KiB."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol, TypeVar

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason

MAX_FRAME_BYTES = 64 * 1024


class Frame(Protocol):
    """A request message with `oneof frame { start, <data> }`."""

    def WhichOneof(self, oneof_group: Any) -> Any: ...  # noqa: D102, N802


FrameT = TypeVar("FrameT", bound=Frame)


async def read_start(frames: AsyncIterator[FrameT]) -> Any:
    """The `start` of the first frame; anything else is refused."""
    async for frame in frames:
        if frame.WhichOneof("frame") == "start":
            return frame.start  # type: ignore[attr-defined] # the oneof says so
        break
    raise InvalidRequestError("the first frame must be `start`", reason=Reason.START_MISSING)


async def read_data(frames: AsyncIterator[FrameT], field: str) -> AsyncIterator[bytes]:
    """The data of every later frame, in order; anything else is refused."""
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


def cut(data: bytes, size: int = MAX_FRAME_BYTES) -> Iterator[bytes]:
    """Pieces that fit a frame."""
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]
