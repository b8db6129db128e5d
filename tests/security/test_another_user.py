"""`ytcaption up` on a shared machine: another user is refused at every port, its owner at none."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pytest

from cli.local.mesh import SERVICES
from mesh.addresses import free_row
from mesh.reasons import Reason
from tests.conftest import running_mesh
from tests.support.another_user import NOBODY
from tests.support.command import environment, run
from tests.support.polling import until


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_another_user_is_refused_everywhere(tmp_path: Path) -> None:
    state, first = tmp_path / "state", free_row(5)
    variables = {"ORCHESTRATOR_LOGIN": "", "XDG_STATE_HOME": str(state)}
    with running_mesh(tmp_path, metrics_port=str(first), **variables) as mesh:
        await until(lambda: _is_printed(mesh.data_dir))
        listed = _ready(mesh.data_dir)
        broker = listed.pop("nats")
        metrics = [f"127.0.0.1:{first + at}" for at in range(5)]
        secrets = _below(tmp_path, "*.token") + _below(tmp_path, "*.nk")
        tried = await _as_nobody(
            {
                "grpc": listed,
                "http": mesh.http.removeprefix("http://"),
                "metrics": metrics,
                "nats": broker,
                "files": [str(file) for file in secrets],
            }
        )
        own = await run("jobs", XDG_STATE_HOME=str(state), YTCAPTION_SERVER=mesh.server)
        (file,) = _below(tmp_path, "metrics.token")
        scraped = [_scrape(address, file) for address in metrics]
        open_ports = _listening(mesh.pid)

    assert tried["uid"] == NOBODY
    assert tried["grpc"] == dict.fromkeys(SERVICES, Reason.TOKEN_REQUIRED)
    assert tried["http"] == {"/jobs": 401, "/metrics": 401, "/live": 200}
    assert tried["metrics"] == [401] * 5
    assert "Authorization Violation" in tried["nats"]
    assert len(secrets) == 8
    assert tried["files"] == ["forbidden"] * len(secrets)
    assert own.code == 0, own.err
    assert all("python_info" in one for one in scraped)
    known = {*listed.values(), broker, mesh.http.removeprefix("http://"), *metrics}
    assert open_ports == known, "a port that was not tried"


async def _is_printed(folder: Path) -> bool:
    return "token of the metrics" in (folder / "up.log").read_text()


def _ready(folder: Path) -> dict[str, str]:
    """Addresses by name, as `up` prints them."""
    found = re.search(r"^ready: (.*)$", (folder / "up.log").read_text(), re.MULTILINE)
    assert found
    return dict(part.split(" ") for part in found[1].split(", "))


def _below(folder: Path, pattern: str) -> list[Path]:
    return list(folder.rglob(pattern))


async def _as_nobody(targets: dict[str, object]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "tests.support.another_user", json.dumps(targets)),
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


def _scrape(address: str, file: Path) -> str:
    header = {"Authorization": f"Bearer {file.read_text().strip()}"}
    request = Request(f"http://{address}/metrics", headers=header)  # our own
    with urlopen(request, timeout=60) as answer:  # noqa: S310 # our own
        return str(answer.read().decode())


def _listening(pid: int) -> set[str]:
    """Every TCP address on which a process of the mesh listens."""
    found = set()
    for process in psutil.Process(pid).children(recursive=True):
        for one in process.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN:
                found.add(f"{one.laddr.ip.removeprefix('::ffff:')}:{one.laddr.port}")
    return found
