"""A client of the real mesh's gateway, and gateways with settings of their own beside it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.conftest import DATA, RealMesh
from tests.gateway.gathering import Gathering, serving_collections
from tests.gateway.http import running_gateway, settled

Gateways = Callable[..., AbstractAsyncContextManager[httpx2.AsyncClient]]


@pytest.fixture
async def http(real_mesh: RealMesh) -> AsyncIterator[httpx2.AsyncClient]:
    """A caller of the real mesh."""
    async with httpx2.AsyncClient(base_url=real_mesh.http, timeout=60) as client:
        yield client


@pytest.fixture
def gateways(real_mesh: RealMesh) -> Gateways:
    """Starts more gateways of the same mesh, each with settings of its own."""

    @asynccontextmanager
    async def started(**settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
        async with running_gateway(**({"orchestrator": real_mesh.server} | settings)) as client:
            yield client

    return started


@pytest.fixture(scope="module")
async def heard(real_mesh: RealMesh) -> dict[str, Any]:
    """A job that has succeeded, in detail."""
    async with httpx2.AsyncClient(base_url=real_mesh.http, timeout=60) as client:
        body = (DATA / "short.ogg").read_bytes()
        named: dict[str, str | bool] = {"file_name": "short.ogg", "force": True}
        accepted = await client.post("/uploads", params=named, content=body)
        return await settled(client, accepted.json()["job_id"])


@pytest.fixture
async def gathering() -> Gathering:
    """An orchestrator that does what it is told, with one collection."""
    return Gathering()


@pytest.fixture
async def caller(gathering: Gathering) -> AsyncIterator[httpx2.AsyncClient]:
    """A caller of a gateway before that orchestrator."""
    async with (
        serving_collections(gathering) as address,
        running_gateway(orchestrator=address) as client,
    ):
        yield client
