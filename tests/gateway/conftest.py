"""HTTP clients: of the real mesh, of more gateways beside it, and of a fake orchestrator."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.conftest import DATA, RealMesh
from tests.support.controlled_collections import ControlledCollection, serving_collections
from tests.support.http import ended_job, running_gateway

GatewayFactory = Callable[..., AbstractAsyncContextManager[httpx2.AsyncClient]]


@pytest.fixture
async def http(real_mesh: RealMesh) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the real mesh."""
    async with httpx2.AsyncClient(base_url=real_mesh.http, timeout=60) as client:
        yield client


@pytest.fixture
def start_gateway(real_mesh: RealMesh) -> GatewayFactory:
    """Starts another gateway of the same mesh, with other settings."""

    @asynccontextmanager
    async def started(**settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
        async with running_gateway(**({"orchestrator": real_mesh.server} | settings)) as client:
            yield client

    return started


@pytest.fixture(scope="module")
async def finished_job(real_mesh: RealMesh) -> dict[str, Any]:
    """A job that has succeeded, in full."""
    async with httpx2.AsyncClient(base_url=real_mesh.http, timeout=60) as client:
        body = (DATA / "short.ogg").read_bytes()
        query: dict[str, str | bool] = {"file_name": "short.ogg", "force": True}
        accepted = await client.post("/uploads", params=query, content=body)
        return await ended_job(client, accepted.json()["job_id"])


@pytest.fixture
async def collection() -> ControlledCollection:
    """The one collection of a fake orchestrator."""
    return ControlledCollection()


@pytest.fixture
async def fake_http(collection: ControlledCollection) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a gateway that uses that fake orchestrator."""
    async with (
        serving_collections(collection) as address,
        running_gateway(orchestrator=address) as client,
    ):
        yield client
