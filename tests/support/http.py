"""Helpers for HTTP clients of the gateway: start one, poll a job, read event streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from time import monotonic
from typing import Any

import httpx2
import uvicorn

from gateway.__main__ import server_config
from gateway.app import create_app
from gateway.settings import Settings
from mesh.tls import ReloadingContext
from tests.support.polling import until

LIMIT_SECONDS = 120
END_STATUSES = ("completed", "failed", "cancelled")


@asynccontextmanager
async def running_gateway(**changes: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Runs a gateway on a real socket, in this process; yields a client of it."""
    settings = Settings(**({"rate_per_second": 0, "grace_seconds": 1} | changes))
    app = create_app(settings)
    app.openapi_schema = _openapi_schema()
    config = server_config(app, settings)
    config.port = 0
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server._serve())
    try:
        await until(lambda: server.started or serving.done())  # uvicorn offers nothing to await
        assert server.started
        port = server.servers[0].sockets[0].getsockname()[1]
        base = f"{'https' if config.is_ssl else 'http'}://127.0.0.1:{port}"
        trusted = ReloadingContext.for_client(replace(settings.tls, peers=""))
        async with httpx2.AsyncClient(base_url=base, timeout=60, verify=trusted) as client:
            yield client
    finally:
        app.state.deps.streams.stop()
        server.should_exit = True
        await serving


@cache
def _openapi_schema() -> dict[str, Any]:
    """The same for all settings; building it takes a third of a second."""
    return create_app(Settings()).openapi()


async def ended_job(client: httpx2.AsyncClient, job_id: str) -> dict[str, Any]:
    """Polls a job until it has ended, as clients of the earlier system do; returns it."""
    deadline = monotonic() + LIMIT_SECONDS
    while monotonic() < deadline:
        found: dict[str, Any] = (await client.get(f"/jobs/{job_id}")).json()
        if found["status"] in END_STATUSES:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"job {job_id} has not ended")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One server-sent event."""

    name: str
    id: int | None
    data: Any


async def events(answer: httpx2.Response) -> AsyncIterator[ServerSentEvent]:
    """Parses a stream of server-sent events, as a browser does."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            event_id = fields.get("id")
            data = json.loads(fields["data"])
            yield ServerSentEvent(fields["event"], int(event_id) if event_id else None, data)
            fields = {}


@asynccontextmanager
async def following(
    client: httpx2.AsyncClient, path: str, after: int | None = None
) -> AsyncIterator[AsyncIterator[ServerSentEvent]]:
    """Opens the event stream of the job or the collection at that path."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    async with client.stream("GET", f"{path}/events", headers=headers) as answer:
        assert answer.status_code == 200, answer.status_code
        yield events(answer)


async def all_events(
    client: httpx2.AsyncClient, path: str, after: int | None = None
) -> list[ServerSentEvent]:
    """Reads the event stream to its end."""
    async with following(client, path, after) as stream:
        return [event async for event in stream]


def ids(received: list[ServerSentEvent]) -> list[int]:
    """The ids of the stored events among them."""
    return [event.id for event in received if event.id is not None]
