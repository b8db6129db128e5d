"""An embedded mesh for one command: free ports, a temporary directory, nothing left behind."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from cli.channel import Server, connected
from cli.local.directories import run_directory
from cli.local.mesh import SERVICES, MeshPlan, phases, reachable
from cli.local.supervisor import StatusDisplay, supervised
from mesh.addresses import free_ports
from mesh.errors import UnavailableError

# No data has to survive, and a user waits for the prompt.
GRACE_SECONDS = 1.0
ATTEMPTS = 3


@asynccontextmanager
async def server_or_embedded(address: str | None, display: StatusDisplay) -> AsyncIterator[Server]:
    """Connects to the server at `address`; without one, to an embedded mesh for this block."""
    async with AsyncExitStack() as stack:
        if address is None:
            address = await stack.enter_async_context(embedded_mesh(display))
        yield await stack.enter_async_context(connected(address))


@asynccontextmanager
async def embedded_mesh(display: StatusDisplay) -> AsyncIterator[str]:
    """Runs an embedded mesh; yields the address of its orchestrator."""
    with run_directory() as run_dir:
        async with AsyncExitStack() as running:
            plan = await _start(run_dir, display, running)
            yield reachable(plan.listen["orchestrator"])


async def _start(run_dir: Path, display: StatusDisplay, running: AsyncExitStack) -> MeshPlan:
    """Starts the mesh; tries other ports if one was taken after it was found free."""
    attempt = 1
    while True:
        plan = _plan(run_dir)
        mesh = supervised(phases(plan), run_dir, grace_seconds=GRACE_SECONDS, display=display)
        try:
            await running.enter_async_context(mesh)
        except UnavailableError as error:
            if attempt == ATTEMPTS or not _is_port_conflict(error):
                raise
            attempt += 1
        else:
            return plan


def _is_port_conflict(error: UnavailableError) -> bool:
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
        # It runs as the user, and reaches no more than the user does.
        allow_private_addresses=True,
    )
