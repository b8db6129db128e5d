"""A mesh for the time of one job: free ports, a run directory, nothing left afterwards."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from cli.channel import Server, connected
from cli.directories import run_directory
from cli.local_mesh import SERVICES, MeshPlan, phases, reachable
from cli.supervisor import Narrator, supervised
from mesh.addresses import free_ports
from mesh.errors import UnavailableError

# Nothing here is to be kept, and somebody waits for their prompt.
GRACE_SECONDS = 1.0
ATTEMPTS = 3


@asynccontextmanager
async def mesh_at(address: str | None, narrator: Narrator) -> AsyncIterator[Server]:
    """The mesh that is there; without an address, one of our own for as long as this lasts."""
    async with AsyncExitStack() as stack:
        if address is None:
            address = await stack.enter_async_context(embedded_mesh(narrator))
        yield await stack.enter_async_context(connected(address))


@asynccontextmanager
async def embedded_mesh(narrator: Narrator) -> AsyncIterator[str]:
    """The address of an orchestrator that is ours alone."""
    with run_directory() as run_dir:
        async with AsyncExitStack() as running:
            plan = await _start(run_dir, narrator, running)
            yield reachable(plan.listen["orchestrator"])


async def _start(run_dir: Path, narrator: Narrator, running: AsyncExitStack) -> MeshPlan:
    """A port may be taken between the moment it was found free and its use; then take others."""
    attempt = 1
    while True:
        plan = _plan(run_dir)
        mesh = supervised(phases(plan), run_dir, grace_seconds=GRACE_SECONDS, narrator=narrator)
        try:
            await running.enter_async_context(mesh)
        except UnavailableError as error:
            if attempt == ATTEMPTS or not _tells_of_a_taken_port(error):
                raise
            attempt += 1
        else:
            return plan


def _tells_of_a_taken_port(error: UnavailableError) -> bool:
    text = str(error).lower()
    return "cannot listen" in text or "address already in use" in text


def _plan(run_dir: Path) -> MeshPlan:
    nats_port, *ports = free_ports(1 + len(SERVICES))
    return MeshPlan(
        listen={name: f"127.0.0.1:{port}" for name, port in zip(SERVICES, ports, strict=True)},
        metrics={},
        nats_port=nats_port,
        data_dir=run_dir / "nats",
        work_dir=run_dir / "work",
        grace_seconds=GRACE_SECONDS,
        # It fetches for the user who runs it, and reaches no more than they do.
        allow_private_addresses=True,
    )
