"""Runs the embedded broker for tests and benchmarks; `ytcaption up` has a supervisor for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import nats
from nats.aio.client import Client

from mesh.addresses import free_ports
from mesh.broker import BINARY, CREDENTIALS, answers, command, url_of, write_configuration
from mesh.credentials import seed_file
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from mesh.tls import PLAIN, ReloadingContext, Tls
from tests.support.processes import stop_process

START_SECONDS = 30
STOP_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker that accepts connections."""

    url: str
    pid: int
    credentials: str = ""
    """The key file of the orchestrator; empty if the URL has its login."""
    tls: Tls = PLAIN

    def key(self, role: str) -> str:
        """The key file of a role."""
        return str(Path(self.credentials).with_name(f"{role}.nk"))

    async def connect(self, role: str) -> Client:
        """A plain NATS client that logs in as the role."""
        trusted = ReloadingContext.for_client(Tls(ca=self.tls.ca)) if self.tls.ca else None
        key = self.key(role)
        return await nats.connect(self.url, nkeys_seed=key, tls=trusted, allow_reconnect=False)


def broker_in(data_dir: Path, port: int, pid: int, tls: Tls = PLAIN) -> Broker:
    """The broker that runs there, for the orchestrator."""
    key = seed_file(data_dir / CREDENTIALS, "orchestrator")
    return Broker(url_of(port, tls), pid, str(key), tls)


@asynccontextmanager
async def running_broker(
    data_dir: Path,
    port: int | None = None,
    *,
    configure: Callable[[Path], None] = lambda _: None,
    tls: Tls = PLAIN,
) -> AsyncIterator[Broker]:
    """Runs the broker until the block ends; acknowledged messages survive even SIGKILL.

    `configure` may change the file of its configuration.
    """
    port = port or free_ports(1)[0]
    configuration = write_configuration(data_dir, port, tls=tls)
    configure(configuration)
    log_path = data_dir / "nats-server.log"
    with log_path.open("ab") as log_file:
        process = await asyncio.create_subprocess_exec(
            *command(configuration),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
        )
    try:
        await _wait_until_ready(process, port, log_path)
        yield broker_in(data_dir, port, process.pid, tls)
    finally:
        await stop_process(process, STOP_SECONDS)


async def _wait_until_ready(process: asyncio.subprocess.Process, port: int, log_path: Path) -> None:
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline:
        if process.returncode is not None:
            break
        if await answers(port):
            return
        await asyncio.sleep(0.02)
    raise UnavailableError(
        f"{BINARY} did not start on port {port}: {_last_log_lines(log_path)}",
        reason=Reason.STORAGE_UNAVAILABLE,
    )


def _last_log_lines(log_path: Path) -> str:
    lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()
    return " / ".join(lines[-3:]) or "its log is empty"
