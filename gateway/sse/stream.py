"""Server-sent event streams: encoding, resumption, heartbeats and the limit on open streams."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Header, Query
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from structlog import get_logger

from gateway.http.limits import client_of
from gateway.http.observability import STREAMS_OPEN
from gateway.http.problems import RefusedError, respond
from gateway.sse.buffer import ClosedError, Updates
from mesh.errors import MeshError, UnavailableError
from mesh.reasons import Reason

log = get_logger(__name__)

MEDIA_TYPE = "text/event-stream"
HEADERS = {"X-Accel-Buffering": "no"}
RETRY = b"retry: 1000\n\n"
HEARTBEAT = b": still here\n\n"
HEARTBEAT_SECONDS = 15.0

UpdateT = TypeVar("UpdateT")
FoundT = TypeVar("FoundT")


def encode(
    name: str,
    data: BaseModel | Mapping[str, object],
    *,
    sequence: int = 0,
    exclude: set[str] | None = None,
) -> bytes:
    """Encodes one event; JSON has no line breaks, so its data is one line."""
    text = (
        data.model_dump_json(exclude=exclude)
        if isinstance(data, BaseModel)
        else json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=_to_json)
    )
    # Only stored events have an id: events without one leave the client's Last-Event-ID unchanged.
    event_id = f"id: {sequence}\n" if sequence else ""
    return f"event: {name}\n{event_id}data: {text}\n\n".encode()


def _to_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return value.isoformat().replace("+00:00", "Z")  # as Pydantic writes it


class Stream(ABC, Generic[UpdateT]):
    """The event stream of one client, until the client disconnects."""

    def __init__(self, subject: str, updates: Updates[UpdateT]) -> None:
        self._subject = subject
        self._buffer = updates
        self._read_ahead: list[UpdateT] = []
        self._stopped = False

    async def begin(self) -> None:
        """Waits for the first update; raises the error of the watch if there is none."""
        self._buffer.open()
        while not self._read_ahead:
            self._read_ahead += await self._buffer.next(HEARTBEAT_SECONDS)

    def stop(self) -> None:
        """Ends the stream without a final event; the client reconnects."""
        self._stopped = True
        self._buffer.close()

    async def encoded(self) -> AsyncGenerator[bytes, None]:
        """Yields the encoded events and heartbeats, up to the final event or `stop`."""
        try:
            yield RETRY
            self._buffer.open()
            updates: Sequence[UpdateT] = self._read_ahead
            while True:
                # Updates that were buffered together are sent in one write.
                if data := b"".join(map(self._encode, updates)):
                    yield data
                updates = await self._buffer.next(HEARTBEAT_SECONDS)
                if not updates:
                    yield HEARTBEAT
        except ClosedError:
            if not self._stopped and (final := await self._final_event()):
                yield final
        except MeshError as error:
            # The client reconnects, and gets the error as the response.
            log.info("event stream failed", id=self._subject, error=str(error))
        finally:
            self._buffer.close()

    @abstractmethod
    def _encode(self, update: UpdateT) -> bytes:
        """Encodes an update as zero or more events."""

    async def _final_event(self) -> bytes:
        """Encodes the last event of a stream that ends by itself."""
        return b""


class ResumableStream(Stream[UpdateT]):
    """The event stream of a job or a collection: ends with it, resumes after a stored event."""

    async def has_more(self) -> bool:
        """Whether an ended job or collection has updates after the client's last event."""
        self._buffer.open()
        try:
            while not any(map(self._is_new, self._read_ahead)):
                self._read_ahead += await self._buffer.next(HEARTBEAT_SECONDS)
        except ClosedError:
            return False
        return True

    @abstractmethod
    def _is_new(self, update: UpdateT) -> bool:
        """Whether a client that received the final event lacks this update."""

    @abstractmethod
    async def _final_event(self) -> bytes:
        """Encodes the last event."""


class OpenStreams:
    """Event streams open now: limits their number, and stops them when the gateway stops."""

    def __init__(self, max_streams: int, max_per_client: int) -> None:
        self._max_streams = max_streams
        self._max_per_client = max_per_client
        self._open: dict[Stream[Any], str] = {}
        self._clients: Counter[str] = Counter()

    def check_capacity(self, client: str = "") -> None:
        """Rejects a stream over the limit, of all clients or of the one that is named."""
        if len(self._open) >= self._max_streams:
            raise RefusedError(
                503, "too many event streams are open", reason=Reason.STAGE_UNAVAILABLE
            )
        if self._clients[client] >= self._max_per_client:
            raise RefusedError(
                429, "too many event streams of one client are open", reason=Reason.RATE_LIMITED
            )

    def stop(self) -> None:
        """Ends all streams; they would keep the server from stopping."""
        for stream in list(self._open):
            stream.stop()

    def response(self, stream: Stream[Any]) -> Response:
        """Responds with the stream."""
        return _StreamResponse(stream, self)

    async def resume(self, stream: ResumableStream[Any], position: int, *, ended: bool) -> Response:
        """Responds with the stream, or with 204 to a client that has all events of its subject."""
        if position and ended and not await stream.has_more():
            return Response(status_code=204)
        return self.response(stream)

    @contextmanager
    def counted(self, stream: Stream[Any], client: str) -> Iterator[None]:
        """Counts the stream until the block ends; raises if it is over a limit."""
        self.check_capacity(client)
        self._open[stream] = client
        self._clients[client] += 1
        STREAMS_OPEN.set(len(self._open))
        try:
            yield
        finally:
            del self._open[stream]
            self._clients[client] -= 1
            self._clients += Counter()  # drops clients that have no more
            STREAMS_OPEN.set(len(self._open))


class _StreamResponse(StreamingResponse):
    """Sends a stream, and closes it however the response ends."""

    def __init__(self, stream: Stream[Any], streams: OpenStreams) -> None:
        self._stream = stream
        self._streams = streams
        self._encoded = stream.encoded()
        super().__init__(self._encoded, media_type=MEDIA_TYPE, headers=HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._streams.counted(self._stream, client_of(scope)):
                async with aclosing(self._encoded):
                    await super().__call__(scope, receive, send)
        except RefusedError as error:
            self._stream.stop()
            await respond(error)(scope, receive, send)


def _position(
    last_event_id: Annotated[str | None, Header()] = None,
    after: Annotated[
        int | None,
        Query(
            ge=0,
            lt=2**63,
            alias="last_event_id",
            description="Same as the header, which takes precedence.",
        ),
    ] = None,
) -> int:
    if last_event_id is None:
        return after or 0
    decimal = last_event_id.isascii() and last_event_id.isdecimal()
    if not decimal or len(last_event_id) >= 19:
        raise RefusedError(400, "Last-Event-ID is not an id of this stream", field="Last-Event-ID")
    return int(last_event_id)


Position = Annotated[int, Depends(_position)]
"""The sequence of the last event the client received; 0: none."""


async def if_available(lookup: Awaitable[FoundT], position: int) -> FoundT | None:
    """Looks up the subject of a stream; None if the orchestrator is down and the client resumes.

    A resuming client waits on the open stream: browsers take an error as the end, and never
    reconnect.
    """
    try:
        return await lookup
    except UnavailableError:
        if position:
            return None
        raise


def stream_responses(until: str, *, resumable: bool = True) -> dict[int | str, dict[str, Any]]:
    """OpenAPI descriptions of the responses of a stream."""
    responses: dict[int | str, dict[str, Any]] = {
        200: {
            "description": f"Server-sent events, until {until}.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        }
    }
    if resumable:
        responses[204] = {"description": "The client has every event: it must not reconnect."}
    return responses
