"""The whole mesh as a user runs it, and a site to fetch from; both on loopback, once a session."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import psutil
import pytest

from mesh.addresses import free_ports, is_taken
from tests.client import Client
from tests.processes import Newborn, lives
from tests.site import Site, serving

DATA = Path(__file__).parent / "data"
COMMAND = str(Path(sys.executable).with_name("ytcaption"))
START_SECONDS = 90


@dataclass(frozen=True, slots=True)
class RealMesh:
    """A running `ytcaption up`."""

    server: str
    """Address of the orchestrator."""
    http: str
    """Base address of the gateway."""
    pid: int
    data_dir: Path


@pytest.fixture(scope="session")
def real_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as running:
        yield running


@contextmanager
def running_mesh(data_dir: Path, **variables: str) -> Iterator[RealMesh]:
    """A mesh with settings of its own until the block ends."""
    port, http_port = four_free_ports(), free_ports(1)[0]
    command = [COMMAND, "up", "--port", str(port), "--metrics-port", "0"]
    command += ["--http-port", str(http_port)]
    command += ["--data-dir", str(data_dir), "--allow-private-addresses"]
    hurried = {"ORCHESTRATOR_RETRY_SECONDS": "0.1", "GATEWAY_RATE_PER_SECOND": "0"}
    environment = {**os.environ, **hurried, **variables}
    with (data_dir / "up.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
        )
    try:
        server = f"127.0.0.1:{port}"
        _wait_until_healthy(server, process, data_dir / "up.log")
        yield RealMesh(server, f"http://127.0.0.1:{http_port}", process.pid, data_dir)
    finally:
        process.terminate()
        process.wait(30)


def four_free_ports() -> int:
    """The first of four in a row."""
    while True:
        port = free_ports(1)[0]
        if port < 65_000 and not any(is_taken(f"127.0.0.1:{port + more}") for more in range(4)):
            return port


def _wait_until_healthy(server: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    # Asked by the command: blocking gRPC beside grpc.aio in one process crashes it now and then.
    question = [COMMAND, "health", "--server", server]
    while time.monotonic() < deadline and process.poll() is None:
        if subprocess.run(question, capture_output=True, check=False).returncode == 0:
            return
    pytest.fail(f"the mesh did not come up: {log.read_text()}")


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with serving(DATA) as running:
        yield running


@pytest.fixture(scope="session")
def spoken_url(site: Site) -> str:
    return f"{site.url}/files/short.ogg"


@pytest.fixture
async def client(real_mesh: RealMesh) -> AsyncIterator[Client]:
    """A caller of the real mesh."""
    async with grpc.aio.insecure_channel(real_mesh.server) as channel:
        yield Client(channel)


@pytest.fixture
def newborn() -> Newborn:
    """The processes below us that were not there when the test began, and live."""
    before = set(psutil.Process().children(recursive=True))

    def look() -> list[psutil.Process]:
        now = psutil.Process().children(recursive=True)
        return [process for process in now if process not in before and lives(process)]

    return look
