"""A real broker, scripted stages and a real orchestrator, all on loopback."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from mesh.bus import Bus
from mesh.server import running_server
from mesh.stores import Limits
from orchestrator.pipeline.stages import STAGES
from orchestrator.settings import Settings
from orchestrator.tasks.types import Types
from orchestrator.wiring import assembled
from tests.support.broker import Broker, running_broker
from tests.support.client import Client
from tests.support.scripted import Script
from tests.support.scripted_stages import scripted_services

STORAGE = 256 * 1024**2
ANSWER_SECONDS = 60
"""For a broker and others that a busy machine holds up: they are slow, not away."""
OUTAGE_SECONDS = 10
"""For tests that kill the broker: a request it had not answered is lost, and waited for."""
Start = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(scope="session", autouse=True)
def grpc_core() -> Iterator[None]:
    """Keeps gRPC's core running from the first test to the last, as a service does.

    Without it the core stops whenever a test leaves no gRPC object behind, and starts again for
    the next: its threads crashed the process in one of a few dozen runs.
    """
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()


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
        async def started(types: Types | None = None, **changes: Any) -> AsyncIterator[Client]:
            usual: dict[str, Any] = {
                "nats_url": broker.url,
                "nats_credentials": broker.credentials,
                "nats_seconds": ANSWER_SECONDS,
                "accept_seconds": ANSWER_SECONDS,
                **{stage.name: address for stage in STAGES},
                "storage_bytes": STORAGE,
                "retry_seconds": 0.01,
                "ack_wait_seconds": 60,  # a busy machine may be late with a heartbeat
                "work_dir": tmp_path / "work",
            }
            settings = Settings(**(usual | changes))
            async with (
                assembled(settings, types) as (services, get_ready),
                running_server(services, grace_seconds=0) as server,
                grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
            ):
                await get_ready()
                yield Client(channel, f"127.0.0.1:{server.port}")

        yield started


@pytest.fixture
async def client(start: Start) -> AsyncIterator[Client]:
    async with start() as started:
        yield started


@asynccontextmanager
async def connected(broker: Broker, **changes: Any) -> AsyncIterator[Bus]:
    """A connection of the test itself."""
    usual: dict[str, Any] = {
        "limits": Limits(storage_bytes=STORAGE),
        "answer_seconds": ANSWER_SECONDS,
        "credentials": broker.credentials,
    }
    async with Bus.connected(broker.url, **(usual | changes)) as bus:
        yield bus


@pytest.fixture
async def broker_bus(broker: Broker) -> AsyncIterator[Bus]:
    async with connected(broker) as bus:
        yield bus


@pytest.fixture
async def outage_bus(broker: Broker) -> AsyncIterator[Bus]:
    """For tests that kill the broker."""
    async with connected(broker, answer_seconds=OUTAGE_SECONDS) as bus:
        yield bus


@pytest.fixture
async def bus(broker_bus: Bus, client: Client) -> Bus:
    """For tests that also want an orchestrator."""
    return broker_bus


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The orchestrator waits for a broker, a stage or a runner that a busy machine holds up."""
    for name in (
        "api.health.ASK_SECONDS",
        "collections.control.SETTLE_SECONDS",
        "events.outbox.ACK_WAIT_SECONDS",
        "jobs.control.STOP_SECONDS",
        "queue.capacity.TIMEOUT_SECONDS",
        "quotas.quotas.CLOSE_SECONDS",
        "search.searching.SEARCH_SECONDS",
    ):
        monkeypatch.setattr(f"orchestrator.{name}", ANSWER_SECONDS)
    # What happens after a while happens in tests that ask for it, not in tests that take long.
    for name in ("maintenance.reconciler.EVERY_SECONDS", "worker.source_store.SOON_SECONDS"):
        monkeypatch.setattr(f"orchestrator.{name}", 3600)


@pytest.fixture
def sweeps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Housekeeping begins with the orchestrator."""
    monkeypatch.setattr("orchestrator.maintenance.housekeeper.FIRST_SECONDS", 0)
