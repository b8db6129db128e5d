"""A broker, null stages and an orchestrator for the load benchmark, each a process of its own."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from benchmarks.children import child, last_words
from benchmarks.processes import Observed
from cli.local.mesh import STAGES, tls_of_services
from mesh.addresses import free_ports
from mesh.broker import answers, command, write_configuration
from mesh.grpc_tls import channel_to
from mesh.tls import PLAIN, Tls
from tests.support.broker import Broker, broker_in
from ytcaption.v1 import admin_service_pb2_grpc as admin_rpc
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc

START_SECONDS = 120.0
MIB = 1024**2
CONNECTIONS = 10
"""Callers share this many; one connection of HTTP/2 carries a hundred streams or so."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where everything of one benchmark lives."""

    broker: Broker
    folder: Path
    stages: str
    """Address of the null stages, whether or not they run."""
    certs: Path | None = None
    """A folder of `ytcaption certs init`: every wire then uses TLS."""

    @property
    def caller(self) -> Tls:
        """How callers of the orchestrator connect."""
        if self.certs is None:
            return PLAIN
        files = (str(self.certs / name) for name in ("client.crt", "client.key", "ca.crt"))
        return Tls(*files)


@dataclass(slots=True)
class Orchestrator(Observed):
    """A running orchestrator and connections to it."""

    channels: list[grpc.aio.Channel]
    ready_seconds: float = 0
    address: str = ""

    @property
    def pipelines(self) -> "list[rpc.PipelineServiceStub]":
        """A stub for each connection."""
        return [rpc.PipelineServiceStub(channel) for channel in self.channels]

    @property
    def admin(self) -> "admin_rpc.AdminServiceStub":
        """For operators."""
        return admin_rpc.AdminServiceStub(self.channels[0])

    async def ping(self) -> bool:
        """Asks whether it serves: the least a call can cost."""
        answer = await HealthStub(self.channels[0]).Check(  # type: ignore[attr-defined] # stubs lack it
            HealthCheckRequest(), timeout=5
        )
        return bool(answer.status == HealthCheckResponse.SERVING)


@asynccontextmanager
async def hasty_broker(data_dir: Path) -> AsyncIterator[Broker]:
    """A broker that leaves syncing to its end: to fill the stores of one that is measured later."""
    port = free_ports(1)[0]
    configuration = write_configuration(data_dir, port)
    hasty = configuration.read_text(encoding="utf-8").replace("sync_interval: always", "")
    configuration.write_text(hasty, encoding="utf-8")
    async with child(command(configuration), {}, data_dir / "nats-server.log") as process:
        async with asyncio.timeout(START_SECONDS):
            while not await answers(port):  # noqa: ASYNC110 # another process
                await asyncio.sleep(0.02)
        yield broker_in(data_dir, port, process.pid)


@asynccontextmanager
async def running_stages(site: Site) -> AsyncIterator[None]:
    """Null stages until the block ends."""
    stages = [sys.executable, "-P", "-m", "benchmarks.load_stages", site.stages]
    stages += [str(site.certs)] if site.certs else []
    async with child(stages, {}, site.folder / "stages.log"):
        yield


@asynccontextmanager
async def running_orchestrator(
    site: Site, prefix: str, *, storage: int = 512 * MIB, concurrency: int = 2
) -> AsyncIterator[Orchestrator]:
    """An orchestrator with stores of its own on the site's broker, until the block ends."""
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    variables = {
        "LISTEN": listen,
        "METRICS_LISTEN": "",
        "NATS_URL": site.broker.url,
        "NATS_CREDENTIALS": site.broker.credentials,
        "PREFIX": prefix,
        "STORAGE_BYTES": str(storage),
        **{name.upper(): site.stages for name in STAGES},
        "CONCURRENCY": str(concurrency),
        "GRACE_SECONDS": "0",
        "WORK_DIR": str(site.folder / "work"),
    }
    files = asdict(tls_of_services(site.certs, {})["orchestrator"])
    variables |= {f"TLS_{name.upper()}": value for name, value in files.items()}
    environment = {f"ORCHESTRATOR_{name}": value for name, value in variables.items()}
    began = monotonic()
    service = [sys.executable, "-P", "-m", "orchestrator"]
    log = site.folder / f"orchestrator-{prefix}.log"
    async with (
        child(service, environment, log) as process,
        connected(listen, tls=site.caller) as channels,
    ):
        orchestrator = Orchestrator(process.pid, channels, address=listen)
        await _until_ready(process, orchestrator, log)
        orchestrator.ready_seconds = monotonic() - began
        yield orchestrator


@asynccontextmanager
async def running_bare(site: Site, *sizes: float) -> AsyncIterator[str]:
    """A server of benchmarks.load_bare with these sizes; its address."""
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    bare = [sys.executable, "-P", "-m", "benchmarks.load_bare", listen, *map(str, sizes)]
    async with child(bare, {}, site.folder / "bare.log"):
        yield listen


@asynccontextmanager
async def connected(
    address: str, connections: int = CONNECTIONS, tls: Tls = PLAIN
) -> AsyncIterator[list[grpc.aio.Channel]]:
    """Connections to a server, each its own."""
    options = (
        ("grpc.use_local_subchannel_pool", 1),  # else they would share one connection
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 50),
        ("grpc.http2.bdp_probe", 0),  # as the project's own clients do
    )
    pems = tls.read() if tls.ca else None
    channels = [channel_to(address, pems, options) for _ in range(connections)]
    try:
        yield channels
    finally:
        for channel in channels:
            await channel.close()


async def _until_ready(
    process: asyncio.subprocess.Process, orchestrator: Orchestrator, log: Path
) -> None:
    async with asyncio.timeout(START_SECONDS):
        while process.returncode is None:
            with suppress(grpc.aio.AioRpcError):
                if await orchestrator.ping():
                    return
            await asyncio.sleep(0.02)
    raise RuntimeError(f"the orchestrator did not start: {last_words(log)}")
