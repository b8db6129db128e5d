"""The door of every rpc: a request is parsed, bounded and checked before a servicer sees it.

Bounds come from the descriptors, by a field's type and name: a new field is bounded without a line
of code. Servicers check what only they know, such as ranges and which fields exclude each other.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from math import isfinite
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp

from mesh.errors import InvalidRequestError, LimitExceededError, MeshError
from mesh.job_options import MAX_URL_BYTES
from mesh.reasons import Reason

MAX_REQUEST_BYTES = 1024**2
MAX_TEXT_BYTES = 4 * 1024
MAX_ID_BYTES = 512
MAX_ITEMS = 100

URLS = frozenset({"source_url", "sources", "addresses", "webhook_url", "proxy"})
LONG_LISTS = {"addresses": 20_000}
"""Lists whose own check allows more: the highest ORCHESTRATOR_MAX_MEMBERS."""

NANOS = 10**9
DURATION_SECONDS = 315_576_000_000
MIN_TIMESTAMP, MAX_TIMESTAMP = -62_135_596_800, 253_402_300_799
"""As protobuf defines them: 10,000 years, and the years 1 to 9999."""


class _Refused:
    """Stands for a request that is refused: a parser that raised would end in a traceback."""

    def __init__(self, error: MeshError) -> None:
        self.error = error


class RequestInterceptor(grpc.aio.ServerInterceptor):
    """Raises the typed error of a refused request when the servicer is called, or reads it."""

    async def intercept_service(  # noqa: D102
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        kind = kind_of(handler)
        behaviour = getattr(handler, kind)
        accept = _Requests if handler.request_streaming else _accepted
        return getattr(grpc, f"{kind}_rpc_method_handler")(
            lambda request, context: behaviour(accept(request), context),
            request_deserializer=_checked(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )


def kind_of(handler: Any) -> str:
    """Such as "unary_stream": the attribute that holds the behaviour of a handler."""
    return "_".join(
        "stream" if streaming else "unary"
        for streaming in (handler.request_streaming, handler.response_streaming)
    )


class _Requests:
    """The requests of a client stream; raises for a refused one."""

    def __init__(self, received: AsyncIterator[Any]) -> None:
        self._received = received
        self._messages: AsyncIterator[Any] | None = None

    def __aiter__(self) -> "_Requests":
        return self

    async def __anext__(self) -> Any:
        # Not before: gRPC complains of an iterator that was opened and never read.
        self._messages = self._messages or aiter(self._received)
        return _accepted(await anext(self._messages))


def _accepted(request: Any) -> Any:
    if isinstance(request, _Refused):
        raise request.error
    return request


def _checked(parse: Callable[[bytes], Message]) -> Callable[[bytes], Message | _Refused]:
    def read(data: bytes) -> Message | _Refused:
        if len(data) > MAX_REQUEST_BYTES:
            return _Refused(
                LimitExceededError(
                    f"a message of {len(data)} bytes is over the {MAX_REQUEST_BYTES} allowed",
                    reason=Reason.FRAME_TOO_LARGE,
                )
            )
        try:
            message = parse(data)
            # What this version does not know would be stored with the rest, at any size.
            message.DiscardUnknownFields()
            check_bounds(message)
        except DecodeError:
            return _Refused(InvalidRequestError("the bytes are not a message of this method"))
        except InvalidRequestError as error:
            return _Refused(error)
        return message

    return read


def check_bounds(message: Message) -> None:
    """Raises InvalidRequestError if a text, list, number or time is out of bounds."""
    if isinstance(message, Duration | Timestamp):
        _check_time(message)
        return
    for field, value in message.ListFields():
        if not field.is_repeated:
            _check_value(field, value)
            continue
        most = LONG_LISTS.get(field.name, MAX_ITEMS)
        if len(value) > most:
            raise InvalidRequestError(f"{field.name} has over {most} entries")
        if field.message_type and field.message_type.GetOptions().map_entry:
            _check_map(field, value)
            continue
        for one in value:
            _check_value(field, one)


def _check_map(field: Any, entries: Mapping[Any, Any]) -> None:
    """The keys and values of a map, such as those of an object of JSON."""
    parts = field.message_type.fields_by_name
    for key, value in entries.items():
        _check_value(parts["key"], key)
        _check_value(parts["value"], value)


def _check_value(field: Any, value: Any) -> None:
    if field.type == field.TYPE_MESSAGE:
        try:
            check_bounds(value)
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{field.name}: {error}") from error
    elif field.type == field.TYPE_STRING:
        if len(value.encode()) > (most := _max_bytes(field.name)):
            raise InvalidRequestError(f"{field.name} has over {most} bytes")
    elif isinstance(value, float) and not isfinite(value):
        raise InvalidRequestError(f"{field.name} is not a finite number")


def _max_bytes(name: str) -> int:
    if name in URLS:
        return MAX_URL_BYTES
    return MAX_ID_BYTES if name.endswith(("_id", "_token")) else MAX_TEXT_BYTES


def _check_time(value: Duration | Timestamp) -> None:
    if isinstance(value, Timestamp):
        valid = MIN_TIMESTAMP <= value.seconds <= MAX_TIMESTAMP and 0 <= value.nanos < NANOS
    else:
        in_range = abs(value.seconds) <= DURATION_SECONDS and abs(value.nanos) < NANOS
        valid = in_range and value.seconds * value.nanos >= 0
    if not valid:
        raise InvalidRequestError(f"not a valid {value.DESCRIPTOR.name.lower()}")
