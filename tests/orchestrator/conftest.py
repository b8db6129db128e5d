"""A real broker, scripted stages and a real orchestrator, all on loopback."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from mesh.broker import Broker, running_broker
from mesh.bus import Bus
from mesh.server import running_server
from mesh.stores import Limits
from orchestrator.__main__ import assembled
from orchestrator.settings import Settings
from tests.client import Client
from tests.orchestrator.scripted import Script
from tests.orchestrator.scripted_stages import scripted_services

STORAGE = 256 * 1024**2
Start = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running_broker(tmp_path / "nats") as running:
        yield running


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def start(broker: Broker, script: Script, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts orchestrators on one broker and one set of stages."""
    async with running_server(scripted_services(script), grace_seconds=0) as stages:
        address = f"127.0.0.1:{stages.port}"

        @asynccontextmanager
        async def started(**changes: Any) -> AsyncIterator[Client]:
            usual: dict[str, Any] = {
                "nats_url": broker.url,
                "downloader": address,
                "normalizer": address,
                "transcriber": address,
                "storage_bytes": STORAGE,
                "retry_seconds": 0.01,
                "ack_wait_seconds": 2,
                "work_dir": tmp_path / "work",
            }
            settings = Settings(**(usual | changes))
            async with (
                assembled(settings) as (services, get_ready),
                running_server(services, grace_seconds=0) as server,
                grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
            ):
                await get_ready()
                yield Client(channel)

        yield started


@pytest.fixture
async def client(start: Start) -> AsyncIterator[Client]:
    async with start() as started:
        yield started


@pytest.fixture
async def broker_bus(broker: Broker) -> AsyncIterator[Bus]:
    async with Bus.connected(broker.url, limits=Limits(storage_bytes=STORAGE)) as connected:
        yield connected


@pytest.fixture
async def bus(broker_bus: Bus, client: Client) -> Bus:
    """For tests that also want an orchestrator."""
    return broker_bus


@pytest.fixture
def sweeps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Housekeeping begins with the orchestrator."""
    monkeypatch.setattr("orchestrator.housekeeping.FIRST_SWEEP_SECONDS", 0)
