"""What a caller over HTTP does, in one line each."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import httpx2
import uvicorn

from gateway.app import create_app
from gateway.settings import Settings
from tests.polling import until

ENDS = ("completed", "failed", "cancelled")


@asynccontextmanager
async def running_gateway(**changes: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway on a real socket, in this process; yields a client of it."""
    app = create_app(Settings(**({"rate_per_second": 0} | changes)))
    config = uvicorn.Config(app, port=0, log_config=None, ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server._serve())
    try:
        await until(lambda: server.started or serving.done())  # it offers nothing to wait for
        assert server.started
        port = server.servers[0].sockets[0].getsockname()[1]
        base = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=base, timeout=60) as client:
            yield client
    finally:
        app.state.face.stop()
        server.should_exit = True
        await serving


async def settled(client: httpx2.AsyncClient, job_id: str, seconds: float = 60) -> dict[str, Any]:
    """Polls as callers of the earlier system do; the job as it ended."""
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        found: dict[str, Any] = (await client.get(f"/jobs/{job_id}")).json()
        if found["status"] in ENDS:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"job {job_id} has not ended")


@dataclass(frozen=True, slots=True)
class Told:
    """One server-sent event."""

    name: str
    id: int | None
    data: Any


async def events(answer: httpx2.Response) -> AsyncIterator[Told]:
    """The events of a stream, as a browser takes them apart."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            place = fields.get("id")
            data = json.loads(fields["data"])
            yield Told(fields["event"], int(place) if place else None, data)
            fields = {}


@asynccontextmanager
async def following(
    client: httpx2.AsyncClient, path: str, after: int | None = None
) -> AsyncIterator[AsyncIterator[Told]]:
    """An open event stream of the job or the collection at that path."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    async with client.stream("GET", f"{path}/events", headers=headers) as answer:
        assert answer.status_code == 200, answer.status_code
        yield events(answer)


async def story(client: httpx2.AsyncClient, path: str, after: int | None = None) -> list[Told]:
    """Everything up to the end."""
    async with following(client, path, after) as told:
        return [one async for one in told]


def ids(told: list[Told]) -> list[int]:
    """The places of the stored events among them."""
    return [one.id for one in told if one.id is not None]
