"""HTTP with TLS: who is answered, and certificates that are replaced."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import httpx2
import pytest

from gateway.__main__ import _bound_socket, _Server, _stop, server_config
from gateway.app import create_app
from gateway.http.problems import status_of
from gateway.settings import Settings
from mesh.errors import MeshError
from mesh.reasons import Reason
from mesh.server import running_server
from mesh.status import CODES
from mesh.tls import ReloadingContext, Tls
from tests.support.certificates import Authority, shown
from tests.support.fake_orchestrator import FakePipeline, services
from tests.support.http import running_gateway
from tests.support.polling import until

SECONDS = 60


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certs")


@asynccontextmanager
async def serving(tls: Tls) -> AsyncIterator[str]:
    """The gateway as its process runs it; no orchestrator answers it."""
    files = {f"tls_{name}": value for name, value in asdict(replace(tls, ca="")).items()}
    if tls.peers:
        files["tls_ca"] = tls.ca
    settings = Settings(orchestrator="127.0.0.1:1", rate_per_second=0, **files)
    app = create_app(settings)
    with _bound_socket("127.0.0.1:0") as listener:
        server = _Server(server_config(app, settings))
        running = asyncio.create_task(server.serve(sockets=[listener]))
        await until(lambda: server.started or running.done())
        try:
            yield "https://{}:{}".format(*listener.getsockname())
        finally:
            _stop(app, server)
            await running


def client(base: str, caller: Tls) -> httpx2.AsyncClient:
    context = ReloadingContext.for_client(caller)
    return httpx2.AsyncClient(base_url=base, verify=context, timeout=SECONDS)


async def alive(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/live")).status_code == 200


async def test_a_client_that_trusts_the_authority_is_answered(authority: Authority) -> None:
    async with (
        serving(authority.issue("gateway")) as base,
        client(base, Tls(ca=str(authority.file))) as http,
    ):
        await alive(http)
        page = await http.get("/")

    assert page.status_code == 200


async def test_a_server_of_another_authority_is_not_believed(
    authority: Authority, tmp_path: Path
) -> None:
    foreign = Authority(tmp_path / "foreign")
    async with (
        serving(foreign.issue("gateway")) as base,
        client(base, Tls(ca=str(authority.file))) as http,
    ):
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await http.get("/live")


async def test_plain_http_gets_no_answer(authority: Authority) -> None:
    async with serving(authority.issue("gateway")) as base, httpx2.AsyncClient() as http:
        with pytest.raises(httpx2.TransportError):
            await http.get(f"{base.replace('https:', 'http:')}/live", timeout=SECONDS)


async def test_only_named_callers_are_answered_if_there_are_names(
    authority: Authority, tmp_path: Path
) -> None:
    foreign = replace(Authority(tmp_path / "foreign").issue("portal"), ca=str(authority.file))
    async with serving(authority.issue("gateway", peers="portal")) as base:
        async with client(base, authority.issue("portal")) as http:
            await alive(http)
        for stranger in (Tls(ca=str(authority.file)), authority.issue("downloader"), foreign):
            async with client(base, stranger) as http:
                with pytest.raises(httpx2.TransportError):
                    await http.get("/live")


@pytest.mark.parametrize("kind", CODES)
def test_every_error_of_the_orchestrator_has_a_status(kind: type[MeshError]) -> None:
    assert status_of(kind("no", reason=Reason.INTERNAL)) >= 400


async def test_an_orchestrator_that_does_not_accept_the_gateway_is_503(
    authority: Authority,
) -> None:
    stranger = authority.issue("stranger")
    files = {f"tls_{name}": value for name, value in asdict(stranger).items()}
    named = authority.issue("orchestrator", peers="gateway")
    async with running_server(services(FakePipeline()), grace_seconds=0, tls=named) as server:
        address = f"127.0.0.1:{server.port}"
        async with running_gateway(orchestrator=address, **files) as http:
            answer = await http.get("/jobs")

    assert answer.status_code == 503
    assert answer.json()["reason"] == Reason.CALLER_FORBIDDEN


async def test_a_certificate_replaced_under_load_loses_no_request(authority: Authority) -> None:
    trusted = Tls(ca=str(authority.file))
    done, replaced = [0] * 4, asyncio.Event()

    async def steady(number: int, base: str) -> None:
        async with client(base, trusted) as http:
            while not replaced.is_set():
                await alive(http)
                done[number] += 1

    async def new_each_time(number: int, base: str) -> None:
        while not replaced.is_set():
            async with client(base, trusted) as http:
                await alive(http)
            done[number] += 1

    async with serving(authority.issue("gateway")) as base, asyncio.TaskGroup() as tasks:
        for number in range(4):
            tasks.create_task((new_each_time if number % 2 else steady)(number, base))
        certificates = set()
        for _ in range(5):
            authority.issue("gateway")
            before = list(done)
            await until(partial(_grew, done, before))
            address = base.removeprefix("https://")
            certificates.add(await asyncio.to_thread(shown, address, trusted))
        replaced.set()

    assert len(certificates) == 5


def _grew(now: list[int], before: list[int]) -> bool:
    """Whether every client began and ended a request since."""
    return all(one > then + 1 for one, then in zip(now, before, strict=True))
