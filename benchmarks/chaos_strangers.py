"""Third-party collectors and executors as processes of their own, started again when they die.

They are the programs of examples/, run with nothing but the generated contract and grpcio.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.chaos_mesh import UpMesh
from mesh.addresses import free_ports
from mesh.tasks import stop
from tests.support.processes import lives, stop_process
from tests.support.strangers import ROOT, stranger_environment

COLLECTOR_PROGRAM = "escavador_blog"
EXECUTOR_PROGRAM = "executador_palavras"
PROGRAMS = {COLLECTOR_PROGRAM: "escavador.py", EXECUTOR_PROGRAM: "executador.py"}
AGAIN_SECONDS = 0.2
LOOK_SECONDS = 0.1
START_SECONDS = 120
STOP_SECONDS = 15


@dataclass(slots=True)
class Program:
    """One program; a new process on the same port after each death."""

    name: str
    address: str
    environment: dict[str, str]
    starts: int = 0
    running: asyncio.subprocess.Process | None = None

    async def keep_running(self) -> None:
        """Starts it again whenever it has ended, until cancelled."""
        try:
            while True:
                self.running = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-S", PROGRAMS[self.name], self.address),
                    cwd=ROOT / "examples" / self.name,
                    env=self.environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
                self.starts += 1
                await self.running.wait()
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            if self.running is not None:
                await stop_process(self.running, STOP_SECONDS)

    def alive(self) -> psutil.Process | None:
        """The process it is now."""
        if self.running is None or self.running.returncode is not None:
            return None
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.running.pid)
            return process if lives(process) else None
        return None

    async def accepts(self) -> bool:
        """Whether it accepts connections; it has no health service."""
        host, _, port = self.address.rpartition(":")
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True


@dataclass(slots=True)
class Strangers:
    """All of them, by name."""

    programs: dict[str, Program] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """Where it serves, over all its lives."""
        return self.programs[name].address

    async def is_whole(self) -> bool:
        """Whether every one of them can be called."""
        return all(await asyncio.gather(*(one.accepts() for one in self.programs.values())))


@asynccontextmanager
async def running_strangers(folder: Path) -> AsyncIterator[Strangers]:
    """Starts every program, and keeps them running until the block ends."""
    environment = await asyncio.to_thread(_environment, folder)
    ports = free_ports(len(PROGRAMS))
    strangers = Strangers(
        {
            name: Program(name, f"127.0.0.1:{port}", environment)
            for name, port in zip(PROGRAMS, ports, strict=True)
        }
    )
    keeping = [asyncio.create_task(one.keep_running()) for one in strangers.programs.values()]
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await strangers.is_whole():  # noqa: ASYNC110 # other processes send no event
                await asyncio.sleep(LOOK_SECONDS)
        yield strangers
    finally:
        await stop(*keeping)


def _environment(folder: Path) -> dict[str, str]:
    folder.mkdir()
    return stranger_environment(folder)


@dataclass(frozen=True, slots=True)
class MeshAndStrangers:
    """Everything that can be killed."""

    mesh: UpMesh
    strangers: Strangers

    async def is_whole(self) -> bool:
        """Whether every process serves."""
        return await self.mesh.is_whole() and await self.strangers.is_whole()

    def alive(self, kind: str) -> psutil.Process | None:
        """The process of that kind now."""
        if program := self.strangers.programs.get(kind):
            return program.alive()
        return self.mesh.alive(kind)
