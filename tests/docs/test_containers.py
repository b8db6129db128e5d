"""Container files checked without a container engine."""

import os
import re
import subprocess
import sys
from asyncio import create_subprocess_exec
from collections.abc import Mapping
from fnmatch import fnmatch
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from mesh import broker
from mesh.addresses import split
from mesh.errors import InvalidRequestError
from mesh.server import running_server
from tests.docs.pages import ROOT, SERVICES, page
from tests.support.certificates import Authority
from tests.support.http import running_gateway

DOCKERFILE = page("Dockerfile").replace("\\\n", " ")
COMPOSE: dict[str, Any] = yaml.safe_load(page("docker-compose.yml"))


USES = {"credentials": "orchestrator"}
"""Services that run another command in the image of a service."""


def _ports(name: str) -> tuple[int, int]:
    """The port of the service and the port of its metrics."""
    settings = import_module(f"{name}.settings").Settings()
    return split(settings.listen)[1], split(settings.metrics_listen)[1]


PORTS = {name: _ports(name) for name in SERVICES}


def _target(name: str) -> str:
    """The lines of one build target."""
    return DOCKERFILE.split(f" AS {name}\n")[1].split("\nFROM ")[0]


def _copied() -> list[str]:
    lines = re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_everything_copied_exists_and_passes_dockerignore() -> None:
    allowed = [line[1:] for line in page(".dockerignore").splitlines() if line.startswith("!")]

    assert _copied()
    for source in _copied():
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in allowed), source


def test_every_package_of_the_wheel_is_copied() -> None:
    packages = re.search(r"^packages = \[(\"mesh\".*)\]$", page("pyproject.toml"), re.MULTILINE)

    assert packages
    for package in re.findall(r'"([^"]+)"', packages[1]):
        assert package.split("/")[0] in _copied()


@pytest.mark.parametrize("name", SERVICES)
def test_a_target_runs_its_service_and_listens_where_it_says(name: str) -> None:
    target, (port, metrics_port) = _target(name), PORTS[name]
    asked = f"http://127.0.0.1:{port}/live" if name == "gateway" else f"127.0.0.1:{port}"

    assert find_spec(f"{name}.__main__")
    assert f'CMD ["python", "-P", "-m", "{name}"]' in target
    assert f"{name.upper()}_LISTEN=0.0.0.0:{port}" in target
    assert f'healthcheck.py", "{asked}"]' in target
    assert f"EXPOSE {port} {metrics_port}" in target


@pytest.mark.parametrize("name", SERVICES)
def test_a_target_installs_the_extra_of_its_service_and_of_no_other(name: str) -> None:
    installed = re.findall(
        r"python scripts/install --dependencies ([a-z]+(?: [a-z]+)*)", _target(name)
    )
    extras = {extra for line in installed for extra in line.split()}

    assert name in extras
    assert extras.isdisjoint({*SERVICES, "all", "dev"} - {name})


@pytest.mark.parametrize("name", SERVICES)
def test_dependencies_are_installed_before_the_code_is_copied(name: str) -> None:
    target = _target(name)

    assert target.index(f"--dependencies {name}") < target.index("COPY --from=wheel")
    assert re.findall(r"^COPY (\S.*) \S+$", _target("base"), re.MULTILINE) == [
        "deploy/healthcheck.py",
        "pyproject.toml requirements.lock",
        "scripts/install",
    ]


@pytest.mark.parametrize("line", re.findall(r"pip (?:install|wheel) .*", DOCKERFILE))
def test_pip_itself_installs_nothing_but_our_own_wheel(line: str) -> None:
    assert "--no-deps" in line
    assert line.endswith(("/opt/wheels/*.whl", "--wheel-dir /opt/wheels ."))


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_runs_as_root(name: str) -> None:
    users = re.findall(r"^USER (\w+)$", _target("base") + _target(name), re.MULTILINE)

    assert users[-1] == "ytcaption"


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_may_start_as_compose_configures_it_and_not_without(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = import_module(f"{name}.settings").Settings
    for variable, value in re.findall(r"\b([A-Z]+_(?:METRICS_)?LISTEN)=(\S+)", _target(name)):
        monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidRequestError, match=f"{name.upper()}_INSECURE_LISTEN"):
        settings().check()

    for variable, value in COMPOSE["services"][name]["environment"].items():
        if variable.endswith("_LISTEN"):
            monkeypatch.setenv(variable, value)
    settings().check()


@pytest.mark.parametrize("name", SERVICES)
def test_every_variable_set_for_a_service_is_a_setting_of_it(name: str) -> None:
    settings = import_module(f"{name}.settings").Settings
    known = {f"{name.upper()}_{field.upper()}" for field in settings.model_fields}
    in_image = re.findall(rf"\b({name.upper()}_\w+)=", _target(name))
    in_compose = COMPOSE["services"][name].get("environment", {})

    assert {*in_image, *in_compose} <= known


def test_compose_builds_targets_that_exist_from_files_that_exist() -> None:
    for name, service in COMPOSE["services"].items():
        if "build" in service:
            target = service["build"]["target"]
            assert target == USES.get(name, name)
            assert f" AS {target}\n" in DOCKERFILE
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            known = (ROOT / source).is_file() if source[0] == "." else source in COMPOSE["volumes"]
            assert known, volume


def test_only_three_ports_are_published_and_only_on_loopback() -> None:
    published = [
        port for service in COMPOSE["services"].values() for port in service.get("ports", ())
    ]

    assert sorted(published) == [
        *("127.0.0.1:50051:50051", "127.0.0.1:8000:8000", "127.0.0.1:9090:9090")
    ]


def test_prometheus_scrapes_every_service() -> None:
    [job] = yaml.safe_load(page("deploy/prometheus.yml"))["scrape_configs"]

    targets = job["static_configs"][0]["targets"]
    assert sorted(targets) == [f"{name}:{PORTS[name][1]}" for name in SERVICES]


def test_the_real_broker_accepts_its_configuration_with_the_keys_that_were_made(
    tmp_path: Path,
) -> None:
    [*_, module, folder] = COMPOSE["services"]["credentials"]["command"]
    configuration = Path(copyfile(ROOT / "deploy/nats.conf", tmp_path / "nats.conf"))
    make = [sys.executable, "-P", "-m", module, str(tmp_path / Path(folder).name)]
    subprocess.run(make, check=True, timeout=240, env={**os.environ, "PYTHONPATH": str(ROOT)})
    command = [str(broker.find_binary()), "-t", "--config", str(configuration)]

    checked = subprocess.run(command, capture_output=True, text=True, timeout=240)

    assert checked.returncode == 0, checked.stderr
    assert "is valid" in checked.stderr


@pytest.mark.parametrize(
    "line", ["sync_interval: always", "js_ack_fc_v2: false", "max_payload: 4MB"]
)
def test_the_broker_is_as_durable_as_the_embedded_one(line: str) -> None:
    assert line in page("deploy/nats.conf")
    assert line in broker.CONFIGURATION


def test_the_broker_has_the_users_of_the_embedded_one_and_no_other() -> None:
    assert page("deploy/nats.conf").endswith(broker.accounts())
    for part in ("no_auth_user", "authorization"):
        assert part not in page("deploy/nats.conf") + broker.CONFIGURATION


@pytest.mark.parametrize(("serving", "code"), [(True, 0), (False, 1)])
async def test_the_health_check_reports_the_servers_health(serving: bool, code: int) -> None:
    async with running_server([], serving=serving) as server:
        assert await _health_check(f"127.0.0.1:{server.port}") == code


async def test_the_health_check_of_a_gateway_is_an_http_get() -> None:
    async with running_gateway(orchestrator="127.0.0.1:1") as http:
        alive = await _health_check(f"{http.base_url}/live")
        lost = await _health_check(f"{http.base_url}/nowhere")

    assert (alive, lost) == (0, 1)
    assert await _health_check(f"{http.base_url}/live") == 1


@pytest.mark.parametrize("peers", ["", "orchestrator"])
async def test_the_health_check_uses_the_services_own_certificate(
    tmp_path: Path, peers: str
) -> None:
    authority = Authority(tmp_path)
    own, other = authority.issue("downloader", peers=peers), authority.issue("other")
    async with running_server([], tls=own) as server:
        address = f"127.0.0.1:{server.port}"
        files = {"CERTIFICATE": own.certificate, "KEY": own.key}
        wrong = {"CERTIFICATE": other.certificate, "KEY": other.key}

        assert await _health_check(address, files) == 0
        assert await _health_check(address, wrong) == 1
        assert await _health_check(address) == 1


async def test_the_health_check_fails_without_an_answer() -> None:
    async with running_server([]) as server:
        address = f"127.0.0.1:{server.port}"

    assert await _health_check(address) == 1


async def _health_check(address: str, tls: Mapping[str, str] | None = None) -> int:
    script = Path(ROOT, "deploy", "healthcheck.py")
    added = {f"DOWNLOADER_TLS_{key}": value for key, value in (tls or {}).items()}
    process = await create_subprocess_exec(
        sys.executable, str(script), address, env={**os.environ, **added}
    )
    return await process.wait()


def test_compose_passes_the_env_file_to_every_service_that_is_ours() -> None:
    for name in SERVICES:
        service = COMPOSE["services"][name]
        assert service["env_file"] == [{"path": ".env", "required": False}], name
