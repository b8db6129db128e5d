"""docs/security.md: its proofs exist, its settings are enough, its proxies work as written."""

import asyncio
import os
import re
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
import trustme
import yaml  # type: ignore[import-untyped]
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from cli.exits import Exit
from gateway.settings import Settings
from mesh.addresses import free_ports
from tests.docs.pages import ROOT, blocks, page
from tests.support.command import run
from tests.support.controlled_collections import ID, ControlledCollection, serving_collections
from tests.support.http import following, running_gateway
from tests.support.polling import until
from tests.support.processes import stop_process

TEXT = page("docs/security.md")
NAME = "captions.example"
FILES = "/etc/captions"
GATEWAY, ORCHESTRATOR = "127.0.0.1:8000", "127.0.0.1:50051"


def test_every_file_and_folder_that_proves_a_promise_exists() -> None:
    named = re.findall(r"`((?:tests|mesh|gateway|cli|orchestrator|downloader)/[\w/.]+)`", TEXT)

    assert len(named) > 30
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_decision_that_is_named_is_linked_and_its_number_is_right() -> None:
    linked = re.findall(r"\[ADR (\d+)\]\(adr/(\d+)-", TEXT)

    assert all(int(number) == int(file) for number, file in linked)
    assert set(re.findall(r"ADR (\d+)", TEXT)) == {number for number, _ in linked}


def exported() -> dict[str, str]:
    """The variables that the page sets before it starts `up`."""
    (line,) = re.findall(r"^export (.*)$", TEXT, re.MULTILINE)
    return dict(word.split("=", 1) for word in line.split())


async def test_with_the_settings_shown_up_lacks_nothing(tmp_path: Path) -> None:
    own = {
        "XDG_DATA_HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "ORCHESTRATOR_LOGIN": "",
    }
    assert ".venv/bin/ytcaption doctor --public --up\n" in TEXT

    ended = await run("doctor", "--public", "--up", **{**exported(), **own})

    assert ended.code == Exit.OK, ended.out


@dataclass(frozen=True, slots=True)
class Proxy:
    """How the configuration of a proxy is shown, and how it is run."""

    language: str
    command: Callable[[Path], list[str]]
    port: str
    """The port it listens on, as it is written; with loopback and another one in its place."""
    moved: str
    head: str = ""
    """What a test needs besides: HTTP/3 would take the UDP port that reserves the other."""


PROXIES = {
    "nginx": Proxy(
        "nginx",
        lambda file: ["nginx", "-c", str(file), "-e", "stderr"],
        "listen 443 ",
        "listen 127.0.0.1:{port} ",
        "daemon off;\npid {folder}/pid;\nerror_log stderr;\n",
    ),
    "caddy": Proxy(
        "caddyfile",
        lambda file: ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"],
        f"{NAME} {{",
        f"{NAME}:{{port}} {{{{\n\tbind 127.0.0.1",
        "{{\n\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system {folder}\n"
        "\tservers {{\n\t\tprotocols h1 h2\n\t}}\n}}\n",
    ),
    "envoy": Proxy(
        "yaml",
        lambda file: ["envoy", "-c", str(file), "--concurrency", "1", "--use-dynamic-base-id"],
        "address: 0.0.0.0, port_value: 443",
        "address: 127.0.0.1, port_value: {port}",
    ),
}


@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_is_shown_with_the_ports_and_the_limit_that_are_ours(name: str) -> None:
    (shown,) = blocks(TEXT, PROXIES[name].language)
    ports = set(re.findall(r"127\.0\.0\.1(?::|, port_value: )(\d+)", shown))

    assert ports == {"8000", "50051"}
    assert Settings().listen == GATEWAY
    assert PROXIES[name].port in shown
    if name != "envoy":  # which has no limit of its own
        assert re.search(r"\b8g|8GiB", shown)
        assert Settings().max_upload_bytes == 8 * 1024**3
    else:
        assert yaml.safe_load(shown)["static_resources"]["clusters"]


@asynccontextmanager
async def running(
    name: str, folder: Path, gateway: str, orchestrator: str
) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """Runs a proxy as shown, with other ports and files; yields its authority and trust."""
    how, port = PROXIES[name], free_ports(1)[0]
    authority = trustme.CA()
    issued = authority.issue_cert(NAME)
    (folder / "fullchain.pem").write_bytes(b"".join(p.bytes() for p in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(folder / "key.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    (shown,) = blocks(TEXT, how.language)
    text = how.head.format(folder=folder) + shown.replace(FILES, str(folder))
    text = text.replace(how.port, how.moved.format(port=port))
    for address, real in ((GATEWAY, gateway), (ORCHESTRATOR, orchestrator)):
        text = text.replace(address, real)
        text = text.replace(f"port_value: {address[10:]}}}", f"port_value: {real[10:]}}}")
    file = folder / ("envoy.yaml" if name == "envoy" else "proxy.conf")
    file.write_text(text)
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *how.command(file), stdout=log, stderr=log, env={**os.environ, "HOME": str(folder)}
        )
    try:
        trust = ssl.create_default_context(cafile=folder / "ca.pem")
        await until(lambda: _accepts(port) or process.returncode is not None)
        assert process.returncode is None, (folder / "log").read_text()
        yield f"{NAME}:{port}", trust
    finally:
        await stop_process(process, 10)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("name", PROXIES)
async def test_a_proxy_as_shown_passes_requests_events_and_calls_on(
    name: str, tmp_path: Path
) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    settings = {
        "hosts": exported()["GATEWAY_HOSTS"],
        "trusted_proxies": exported()["GATEWAY_TRUSTED_PROXIES"],
    }
    async with (
        serving_collections(ControlledCollection()) as orchestrator,
        running_gateway(orchestrator=orchestrator, **settings) as direct,
        running(name, tmp_path, direct.base_url.netloc.decode(), orchestrator) as (at, trust),
        httpx2.AsyncClient(
            base_url=f"https://127.0.0.1:{at.rpartition(':')[2]}",
            headers={"Host": at},
            verify=trust,
            timeout=60,
        ) as http,
    ):
        http.event_hooks["request"].append(_under_its_name)
        page_of_ours = await http.get("/")
        own = await http.post(f"/collections/{ID}/cancel", headers={"Origin": f"https://{at}"})
        foreign = await http.post(
            f"/collections/{ID}/cancel", headers={"Origin": "https://evil.test"}
        )
        async with following(http, f"/collections/{ID}") as stream:  # which does not end
            event = await anext(stream)
        serving = await asyncio.to_thread(_is_serving, at, tmp_path / "ca.pem")

    assert page_of_ours.headers["strict-transport-security"]
    assert (page_of_ours.status_code, own.status_code, foreign.status_code) == (200, 200, 403)
    assert event.name
    assert serving


async def _under_its_name(request: httpx2.Request) -> None:
    request.extensions["sni_hostname"] = NAME


def _is_serving(at: str, authority: Path) -> bool:
    """The answer of the orchestrator's health check through the proxy."""
    credentials = grpc.ssl_channel_credentials(authority.read_bytes())
    options = [("grpc.ssl_target_name_override", NAME), ("grpc.default_authority", at)]
    with grpc.secure_channel(f"127.0.0.1:{at.rpartition(':')[2]}", credentials, options) as channel:
        stub: Any = HealthStub(channel)  # its stubs are untyped
        answer = stub.Check(HealthCheckRequest(), timeout=60)
    return bool(answer.status == HealthCheckResponse.SERVING)
