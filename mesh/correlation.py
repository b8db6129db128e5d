"""The caller's thread through every service: metadata on the wire, a context variable inside."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from structlog.contextvars import bind_contextvars, bound_contextvars, get_contextvars
from uuid6 import uuid7

from mesh.interception import GuardInterceptor

KEY = "x-correlation-id"


def new_id() -> str:
    """A UUIDv7: unique, and sorted by time."""
    return str(uuid7())


def current() -> str:
    """The correlation id of the call or job this code runs for; "" outside of any."""
    return str(get_contextvars().get("correlation_id", ""))


def call_metadata() -> tuple[tuple[str, str], ...]:
    """Metadata that carries the current correlation id to the next service."""
    found = current()
    return ((KEY, found),) if found else ()


def adopt(correlation_id: str) -> None:
    """From here on, everything this call does is logged and sent on under this id."""
    bind_contextvars(correlation_id=correlation_id)


def _from_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    return next((str(value)[:128] for key, value in metadata or () if key == KEY), "")


@asynccontextmanager
async def _correlated(context: Any, method: str) -> AsyncIterator[None]:
    correlation_id = _from_metadata(context.invocation_metadata()) or new_id()
    with bound_contextvars(correlation_id=correlation_id, rpc=method.rpartition(".")[2]):
        await context.send_initial_metadata(((KEY, correlation_id),))
        yield


class CorrelationInterceptor(GuardInterceptor):
    """Gives every call a correlation id and tells the caller which."""

    def __init__(self) -> None:
        super().__init__(_correlated)
