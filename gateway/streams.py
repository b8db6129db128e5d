"""What all event streams have in common: where a client goes on, and how many there may be."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Protocol

from fastapi import Header, Query
from starlette.responses import StreamingResponse

from gateway.observing import STREAMS_OPEN
from gateway.problems import RefusedError
from mesh.reasons import Reason

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MEDIA_TYPE = "text/event-stream"
LastEventId = Annotated[str | None, Header()]
After = Annotated[
    int | None,
    Query(ge=0, lt=2**63, alias="last_event_id", description="As the header, which comes first."),
]


class Telling(Protocol):
    """Somebody's way through a story."""

    def told(self) -> AsyncGenerator[bytes, None]:
        """Everything as it goes to the client."""
        ...

    def stop(self) -> None:
        """Breaks it off."""
        ...


def described_stream(until: str) -> dict[int | str, dict[str, Any]]:
    """The answers of a stream, for its OpenAPI description."""
    return {
        200: {
            "description": f"Server-sent events, until {until}.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        },
    }


NOTHING_MORE: dict[int | str, dict[str, Any]] = {
    204: {"description": "There is nothing more: stop asking."},
}
"""What a client hears that comes back to a story after its end."""


def place_of(header: str | None, after: int | None) -> int:
    """The last event the client had; 0 if it had none."""
    if header is None:
        return after or 0
    if not (header.isascii() and header.isdecimal() and len(header) < 19):
        raise RefusedError(400, "Last-Event-ID is not one of ours", field="Last-Event-ID")
    return int(header)


def check_room(open_streams: set[Telling], allowed: int) -> None:
    """Refuses the stream that is one too many."""
    if len(open_streams) >= allowed:
        raise RefusedError(503, "too many event streams are open", reason=Reason.STAGE_UNAVAILABLE)


def streamed(open_streams: set[Telling], story: Telling) -> StreamingResponse:
    """The story as an answer."""
    return StreamingResponse(_counted(open_streams, story), media_type=MEDIA_TYPE, headers=HEADERS)


async def _counted(open_streams: set[Telling], story: Telling) -> AsyncIterator[bytes]:
    open_streams.add(story)
    STREAMS_OPEN.set(len(open_streams))
    try:
        async with aclosing(story.told()) as told:
            async for piece in told:
                yield piece
    finally:
        open_streams.discard(story)
        STREAMS_OPEN.set(len(open_streams))
