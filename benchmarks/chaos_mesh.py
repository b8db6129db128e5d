"""A mesh of its own under `ytcaption up`, and who kills its processes."""

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Protocol

import click
import psutil

from benchmarks.processes import SERVICES, service_of
from cli.channel import is_serving
from mesh.addresses import free_row
from tests.support.processes import stop_process

START_SECONDS = 120
STOP_SECONDS = 40
LOOK_SECONDS = 0.1
RECOVERY_SECONDS = 60
IMPATIENT = {
    "ORCHESTRATOR_LOGIN": "false",
    "ORCHESTRATOR_RETRY_SECONDS": "0.2",
    "ORCHESTRATOR_RETRY_LIMIT_SECONDS": "2",
    "ORCHESTRATOR_ACK_WAIT_SECONDS": "3",
    # A kill costs an attempt without a fault of the job.
    "ORCHESTRATOR_MAX_ATTEMPTS": "10000",
    "ORCHESTRATOR_MAX_CRASHES": "10000",
    # Executors of a whole collection have to end while everything keeps dying.
    "ORCHESTRATOR_EXECUTOR_MARGIN_SECONDS": "30",
}


@dataclass(frozen=True, slots=True)
class UpMesh:
    """A running `ytcaption up`."""

    server: str
    pid: int
    log: Path
    addresses: tuple[str, ...]
    """Of all services, the orchestrator's first."""
    data_dir: Path
    nats_port: int

    async def is_whole(self) -> bool:
        """Whether every service serves, so that jobs can go on."""
        return all(await asyncio.gather(*(is_serving(address) for address in self.addresses)))

    def alive(self, kind: str) -> psutil.Process | None:
        """The process that is this service now; after a kill it is another one."""
        for process in psutil.Process(self.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if service_of(process.cmdline()) == kind:
                    return process
        return None


@asynccontextmanager
async def up_mesh(data_dir: Path) -> AsyncIterator[UpMesh]:
    """The whole mesh on free ports, supervised, until the block ends."""
    port = free_row(5)
    nats_port = port + 4
    command = [sys.executable, "-m", "cli", "up", "--port", str(port), "--metrics-port", "0"]
    command += ["--http-port", "0", "--nats-port", str(nats_port)]
    command += ["--data-dir", str(data_dir), "--allow-private-addresses"]
    log = data_dir.with_suffix(".log")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **IMPATIENT},
            start_new_session=True,
        )
    addresses = tuple(f"127.0.0.1:{port + more}" for more in range(4))
    mesh = UpMesh(addresses[0], process.pid, log, addresses, data_dir, nats_port)
    try:
        await _until_it_serves(mesh, process)
        yield mesh
    finally:
        await stop_process(process, STOP_SECONDS)  # the reapers end what it leaves behind


async def _until_it_serves(mesh: UpMesh, process: asyncio.subprocess.Process) -> None:
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline and process.returncode is None:
        if await is_serving(mesh.server):
            return
        await asyncio.sleep(LOOK_SECONDS)
    words = mesh.log.read_text(encoding="utf-8", errors="replace")
    raise click.ClickException(f"the mesh did not come up: {words[-2000:]}")


@dataclass(frozen=True, slots=True)
class Blow:
    """One kill to come."""

    kind: str
    pause: float
    when_whole: bool
    """Waits first until the last victim is back: then it hits work, else it hits recovery."""


def planned_kills(
    count: int, pause: float, seed: int, kinds: Sequence[str] = SERVICES
) -> Iterator[Blow]:
    """Plans kills of every process kind; order and times follow from the seed."""
    rng = random.Random(seed)  # noqa: S311 # to be repeatable, not secret
    deck: list[str] = []
    for _ in range(count):
        if not deck:
            deck = rng.sample(kinds, len(kinds))
        # Now and then two at once.
        quick = rng.random() < 0.15
        wait = rng.uniform(0, 0.2) if quick else rng.uniform(0.2, 2 * pause)
        yield Blow(deck.pop(), wait, when_whole=not quick and rng.random() < 0.6)


class Victims(Protocol):
    """Processes that may be killed because something starts them again."""

    async def is_whole(self) -> bool:
        """Whether every one of them serves."""

    def alive(self, kind: str) -> psutil.Process | None:
        """The process of that kind now; None between a death and the next start."""


@dataclass(slots=True)
class Killer:
    """Kills what the mesh consists of, and counts."""

    victims: Victims
    say: Callable[[str], None]
    kills: Counter[str] = field(default_factory=Counter)
    over: bool = False
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self, planned: Iterator[Blow], is_over: Callable[[], bool]) -> None:
        """Runs every planned kill, or stops early when all jobs have ended."""
        try:
            for blow in planned:
                if blow.when_whole:
                    await self._until_whole()
                await asyncio.sleep(blow.pause)
                if is_over():
                    return
                await self._strike(blow.kind)
        finally:
            self.over = True
            await self._tell()

    async def _until_whole(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(RECOVERY_SECONDS):
                while not await self.victims.is_whole():  # noqa: ASYNC110 # other processes send no event
                    await asyncio.sleep(LOOK_SECONDS)

    async def _strike(self, kind: str) -> None:
        while (victim := await asyncio.to_thread(self.victims.alive, kind)) is None:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)  # the supervisor is about to start it again
        with suppress(psutil.NoSuchProcess):
            victim.kill()
            self.kills[kind] += 1
            self.say(f"kill {self.kills.total()}: {kind} ({victim.pid})")
        await self._tell()

    async def _tell(self) -> None:
        async with self.moved:
            self.moved.notify_all()

    async def until(self, kills: float) -> None:
        """Returns once that many were killed, or no more will be."""
        async with self.moved:
            await self.moved.wait_for(lambda: self.over or self.kills.total() >= kills)
