"""The whole mesh as a user runs it, and a site to fetch from; both on loopback, once a session."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
import httpx2
import psutil
import pytest
from hypothesis import HealthCheck, settings

from cli.local.certs import NAMES
from mesh.addresses import free_ports, free_row
from mesh.channel import open_direct_channel
from mesh.tls import PLAIN, ReloadingContext, Tls
from tests.support.certificates import Authority
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
OVER_TLS = bool(os.environ.get("TESTS_OVER_TLS"))
"""Whether every mesh of the tests has TLS on each wire: `make test-tls`."""
COOKIE_PREFIX = "__Host-" if OVER_TLS else ""
"""Of every cookie of the gateway."""
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
    certs: str = ""
    """A folder as `ytcaption certs init` makes it; "": plain text."""

    def tls(self, name: str = "client") -> Tls:
        """What a caller with that certificate shows, and the authority it trusts."""
        files = (f"{name}.crt", f"{name}.key", "ca.crt")
        return Tls(*(f"{self.certs}/{file}" for file in files)) if self.certs else PLAIN

    def channel(self) -> grpc.aio.Channel:
        """A channel to the orchestrator."""
        return open_direct_channel(self.server, self.tls())

    def browser(self, **options: Any) -> httpx2.AsyncClient:
        """A client of the gateway. It shows no certificate, as a browser."""
        trusted = ReloadingContext.for_client(Tls(ca=self.tls().ca))
        return httpx2.AsyncClient(base_url=self.http, timeout=60, verify=trusted, **options)

    def variables(self, name: str = "client") -> dict[str, str]:
        """What commands need in their environment to find the mesh and its wires."""
        files = {
            f"YTCAPTION_TLS_{key.upper()}": file for key, file in asdict(self.tls(name)).items()
        }
        return {
            "YTCAPTION_SERVER": self.server,
            **{key: file for key, file in files.items() if file},
        }

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
    if OVER_TLS and not certs:
        certs = str(certificates_in(data_dir / "certs"))
    port, http_port = free_row(4), free_ports(1)[0]
    http = f"{'https' if certs else 'http'}://127.0.0.1:{http_port}"
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
        mesh = RealMesh(f"127.0.0.1:{port}", http, process.pid, data_dir, certs)
        _wait_until_healthy(mesh, process)
        yield mesh
    finally:
        process.terminate()
        process.wait(120)


def certificates_in(folder: Path) -> Path:
    """The same files as those of `ytcaption certs init`, of an authority of the tests."""
    authority = Authority(folder)
    for name in NAMES:
        authority.issue(name)
    return folder


def _wait_until_healthy(mesh: RealMesh, process: "subprocess.Popen[bytes]") -> None:
    """Polls the gateway: cheap, and it answers 200 only once every stage serves."""
    trusted = ReloadingContext.for_client(Tls(ca=mesh.tls().ca)) if mesh.certs else None
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), urlopen(f"{mesh.http}/health", timeout=10, context=trusted):  # noqa: S310 # our own
            return
        time.sleep(POLL_SECONDS)
    pytest.fail(f"the mesh did not come up: {(mesh.data_dir / 'up.log').read_text()}")


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
    async with real_mesh.channel() as channel:
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
