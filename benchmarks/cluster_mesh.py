"""Two orchestrators and two of each stage on a cluster of brokers, each a process of its own."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.children import last_words
from benchmarks.cluster_clocks import set_clock, variables
from cli.channel import is_serving
from cli.local.mesh import SERVICES, STAGES
from mesh.addresses import free_ports
from mesh.tasks import stop
from tests.support.cluster import SIZE
from tests.support.polling import until

REPLICAS = 2
START_SECONDS = 180
STOP_SECONDS = 20
AGAIN_SECONDS = 0.5
ACK_WAIT_SECONDS = 4.0
MIB = 1024**2
IMPATIENT = {
    "ACK_WAIT_SECONDS": str(ACK_WAIT_SECONDS),
    "CIRCUIT_SECONDS": "0.5",
    "GRACE_SECONDS": "5",
    # A fault costs an attempt without a fault of the job.
    "MAX_ATTEMPTS": "10000",
    "MAX_CRASHES": "10000",
    "MAX_DELIVERIES": "100000",
    "REPLICAS": str(SIZE),
    "RETRY_LIMIT_SECONDS": "2",
    "RETRY_SECONDS": "0.2",
    "STORAGE_BYTES": str(512 * MIB),
}

Say = Callable[[str], None]


@dataclass(slots=True)
class Service:
    """One replica of a service; started again whenever it ends unasked."""

    kind: str
    name: str
    address: str
    command: tuple[str, ...]
    variables: dict[str, str]
    log: Path
    say: Say
    exits: int = 0
    """How often it ended although nothing had been done to it."""
    code: Path | None = None
    """The sources of another version; None: this one."""
    clock: Path | None = None
    """The file with the offset of its clock; None: it has the machine's."""
    process: asyncio.subprocess.Process | None = None
    _wanted: bool = False
    _supervising: "asyncio.Task[None] | None" = None

    async def start(self) -> None:
        """Starts the process; it may not serve yet."""
        older = {"PYTHONPATH": f"{self.code}:{self.code / 'gen'}"} if self.code else {}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.variables, **older},
                start_new_session=True,
            )
        self._wanted = True
        self._supervising = asyncio.create_task(self._supervise(self.process))

    async def _supervise(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        if self._wanted and self.process is process:
            self.exits += 1
            self.say(f"{self.name} ended by itself with {code}: {last_words(self.log)[-600:]}")
            await asyncio.sleep(AGAIN_SECONDS)
            await self.start()

    async def until_ready(self) -> None:
        """Returns once it serves."""

        async def serves() -> bool:
            return bool(await is_serving(self.address))

        try:
            await until(serves, START_SECONDS)
        except TimeoutError:
            raise TimeoutError(f"{self.name} is not ready: {last_words(self.log)}") from None

    async def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM, as in a restart; SIGKILL if it does not end."""
        await self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Stops the process in its tracks; its connections stay open."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on."""
        self._signal(signal.SIGCONT)

    def set_clock(self, seconds: float) -> None:
        """Moves its clock, by so much from the true time."""
        if self.clock is not None:
            set_clock(self.clock, seconds)

    async def _end(self, number: int) -> None:
        self._wanted = False
        process = self.process
        if process is None or process.returncode is not None:
            return
        self._signal(signal.SIGCONT)
        self._signal(number)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await process.wait()
        if self._supervising:
            await stop(self._supervising)

    def _signal(self, number: int) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


@dataclass(slots=True)
class Mesh:
    """All services on one cluster."""

    services: list[Service] = field(default_factory=list)

    def of(self, kind: str) -> list[Service]:
        """The replicas of a service."""
        return [service for service in self.services if service.kind == kind]

    def exits(self) -> Counter[str]:
        """How often a service ended unasked, by kind."""
        counted: Counter[str] = Counter()
        for service in self.services:
            counted[service.kind] += service.exits
        return counted

    async def until_ready(self) -> None:
        """Returns once every service serves."""
        await asyncio.gather(*(service.until_ready() for service in self.services))


@dataclass(frozen=True, slots=True)
class Kind:
    """What a mesh is made of."""

    prefix: str = "NULL"
    real: bool = False
    """Real stages; else stages that answer at once."""
    concurrency: int = 8
    code: Path | None = None
    work_dir: Path | None = None
    """Of the orchestrators; None: beside the logs."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Further settings of the orchestrators."""
    faketime: Path | None = None
    """The library that gives each service a clock of its own."""


@asynccontextmanager
async def running_mesh(
    nats_url: str, folder: Path, say: Say, kind: Kind | None = None
) -> AsyncIterator[Mesh]:
    """Runs all services until the block ends; they serve when it begins."""
    kind = kind or Kind()
    mesh = Mesh(_planned(nats_url, folder, say, kind))
    async with AsyncExitStack() as stack:
        for service in mesh.services:
            service.code = kind.code
            stack.push_async_callback(service.stop)
            await service.start()
        await mesh.until_ready()
        yield mesh


def _planned(nats_url: str, folder: Path, say: Say, kind: Kind) -> list[Service]:
    ports = free_ports(REPLICAS * len(SERVICES))
    addresses = {name: [f"127.0.0.1:{ports.pop()}" for _ in range(REPLICAS)] for name in SERVICES}
    services = []
    for name in (*STAGES, "orchestrator"):
        for number, address in enumerate(addresses[name]):
            label = f"{kind.prefix.lower()}-{name}-{number}"
            settings = {
                "LISTEN": address,
                "METRICS_LISTEN": "",
                "WORK_DIR": str((kind.work_dir or folder) / label),
                **_settings(name, nats_url, addresses, kind),
            }
            service = Service(
                name,
                label,
                address,
                _command(name, address, real=kind.real),
                {f"{name.upper()}_{key}": value for key, value in settings.items()},
                folder / f"{label}.log",
                say,
            )
            if kind.faketime:
                service.clock = folder / f"{label}.clock"
                service.set_clock(0)
                service.variables |= variables(kind.faketime, service.clock)
            services.append(service)
    return services


def _settings(
    name: str, nats_url: str, addresses: dict[str, list[str]], kind: Kind
) -> dict[str, str]:
    if name == "downloader":
        return {"ALLOW_PRIVATE_ADDRESSES": "true"}
    if name == "transcriber":
        return {"MODEL": "tiny.en", "CPU_THREADS": "1"}
    if name != "orchestrator":
        return {}
    stages = {stage.upper(): ",".join(addresses[stage]) for stage in STAGES}
    return {
        "NATS_URL": nats_url,
        "PREFIX": kind.prefix,
        "CONCURRENCY": str(kind.concurrency),
        "MIN_FREE_BYTES": str(8 * MIB),
        **IMPATIENT,
        **stages,
        **kind.more,
    }


def _command(name: str, address: str, *, real: bool) -> tuple[str, ...]:
    if real or name == "orchestrator":
        return (sys.executable, "-P", "-m", name)
    return (sys.executable, "-P", "-m", "benchmarks.load_stages", address)
