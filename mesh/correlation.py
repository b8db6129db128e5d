"""The correlation id of a call: gRPC metadata between services, a context variable inside."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from structlog.contextvars import bind_contextvars, bound_contextvars, get_contextvars
from uuid6 import uuid7

from mesh.bearer import bearer_metadata

KEY = "x-correlation-id"
BINARY_KEY = f"{KEY}-bin"
"""For ids that are not ASCII, which text metadata must be."""
MAX_LENGTH = 128

Metadata = tuple[tuple[str, str | bytes], ...]


def new_id() -> str:
    """A UUIDv7: unique, and sorted by time."""
    return str(uuid7())


def current() -> str:
    """The correlation id of the call or job this code runs for; "" outside of any."""
    return str(get_contextvars().get("correlation_id", ""))


def call_metadata() -> Metadata:
    """Metadata that carries the current correlation id, and our token, to the next service."""
    return (*metadata_of(current()), *bearer_metadata())


def metadata_of(correlation_id: str) -> Metadata:
    """Metadata that carries this correlation id; nothing without one."""
    return _to_metadata(correlation_id) if correlation_id else ()


def _to_metadata(correlation_id: str) -> Metadata:
    if correlation_id.isascii() and correlation_id.isprintable():
        return ((KEY, correlation_id),)
    return ((BINARY_KEY, correlation_id.encode(errors="replace")),)


def adopt(correlation_id: str) -> None:
    """Sets the correlation id of everything this call logs and sends from here on."""
    bind_contextvars(correlation_id=correlation_id)


def _from_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    for key, value in metadata or ():
        if key in (KEY, BINARY_KEY):
            text = value.decode(errors="replace") if isinstance(value, bytes) else value
            return text[:MAX_LENGTH]
    return ""


@asynccontextmanager
async def correlated(context: Any, method: str) -> AsyncIterator[None]:
    """Gives the call a correlation id and returns it in the response metadata."""
    correlation_id = _from_metadata(context.invocation_metadata()) or new_id()
    with bound_contextvars(correlation_id=correlation_id, rpc=method.rpartition(".")[2]):
        await context.send_initial_metadata(_to_metadata(correlation_id))
        yield
