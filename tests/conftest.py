"""The whole mesh as a user runs it, and a site to fetch from; both on loopback, once a session."""

import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import grpc
import psutil
import pytest
from hypothesis import HealthCheck, settings

from mesh.addresses import free_ports, free_row
from tests.support.client import Client
from tests.support.processes import Newborn, lives
from tests.support.site import Site, serving
from tests.support.unretrieved import Unretrieved, recording_unretrieved

DATA = Path(__file__).parent / "data"
# Before NumPy is imported: one thread, as in model processes, so that features round the same.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# A mesh of the tests starts at once; tests of the measurement turn it on.
os.environ["TRANSCRIBER_MEASURE_BACKENDS"] = "false"
COMMAND = str(Path(sys.executable).with_name("ytcaption"))
START_SECONDS = 240
POLL_SECONDS = 0.1

# Every property test: no limit of time, and the same examples for the same code.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],  # a measure of time, too
)
settings.load_profile("suite")


@dataclass(frozen=True, slots=True)
class RealMesh:
    """A running `ytcaption up`."""

    server: str
    """Address of the orchestrator."""
    http: str
    """Base address of the gateway."""
    pid: int
    data_dir: Path

    @property
    def token(self) -> str:
        """The token of its owner; "" if it has no login."""
        files = list(_state(self.data_dir).rglob("*.token"))
        return files[0].read_text().strip() if files else ""


@pytest.fixture(scope="session")
def real_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as running:
        yield running


@contextmanager
def guarded_mesh(data_dir: Path, **variables: str) -> Iterator[RealMesh]:
    """A mesh with a login, as `ytcaption up` runs it."""
    state = {"ORCHESTRATOR_LOGIN": "", "XDG_STATE_HOME": str(_state(data_dir))}
    with running_mesh(data_dir, **(state | variables)) as mesh:
        yield mesh


def _state(data_dir: Path) -> Path:
    """Where a guarded mesh keeps the token of its owner."""
    return data_dir / "state"


@contextmanager
def running_mesh(
    data_dir: Path, *, certs: str = "", metrics_port: str = "0", **variables: str
) -> Iterator[RealMesh]:
    """A mesh with settings of its own until the block ends; with TLS if there are certificates.

    In the variables, `{http}` stands for the address of its page.
    """
    trusted = ssl.create_default_context(cafile=f"{certs}/ca.crt") if certs else None
    port, http_port = free_row(4), free_ports(1)[0]
    http = f"{'https' if trusted else 'http'}://127.0.0.1:{http_port}"
    variables = {name: value.replace("{http}", http) for name, value in variables.items()}
    command = [COMMAND, "up", "--port", str(port), "--metrics-port", metrics_port]
    command += ["--http-port", str(http_port), "--nats-port", "0"]
    command += ["--data-dir", str(data_dir), "--allow-private-addresses"]
    command += ["--certs", certs] if certs else []
    usual = {
        # Tests of the login have a mesh of their own.
        "ORCHESTRATOR_LOGIN": "false",
        "ORCHESTRATOR_RETRY_SECONDS": "0.1",
        "GATEWAY_RATE_PER_SECOND": "0",
        # On a busy machine the broker and the sites of the tests are slow, not away.
        "ORCHESTRATOR_NATS_SECONDS": "60",
        "ORCHESTRATOR_ACCEPT_SECONDS": "60",
        "DOWNLOADER_SOCKET_TIMEOUT_SECONDS": "240",
    }
    environment = {**os.environ, **usual, **variables}
    with (data_dir / "up.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
        )
    try:
        server = f"127.0.0.1:{port}"
        _wait_until_healthy(http, process, data_dir / "up.log", trusted)
        yield RealMesh(server, http, process.pid, data_dir)
    finally:
        process.terminate()
        process.wait(120)


def _wait_until_healthy(
    http: str, process: "subprocess.Popen[bytes]", log: Path, trusted: ssl.SSLContext | None
) -> None:
    """Polls the gateway: cheap, and it answers 200 only once every stage serves."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), urlopen(f"{http}/health", timeout=10, context=trusted):  # noqa: S310 # our own
            return
        time.sleep(POLL_SECONDS)
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


@pytest.fixture
async def unretrieved() -> AsyncIterator[Unretrieved]:
    """Exceptions of tasks that no caller retrieved since the test began."""
    with recording_unretrieved() as recorded:
        yield recorded
