"""TLS between services: who is believed, who may call, and certificates that are replaced."""

import asyncio
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from mesh.addresses import free_ports
from mesh.channel import open_channel, open_direct_channel
from mesh.errors import UnauthenticatedError
from mesh.grpc_tls import known_peers
from mesh.metrics import serve_metrics
from mesh.reasons import Reason
from mesh.server import running_server
from mesh.status import reason_of
from mesh.tls import PLAIN, ReloadingContext, Tls
from tests.mesh.echo import echo_service
from tests.support.certificates import Authority, shown
from tests.support.polling import until
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc

NAME = "ytcaption.v1.DownloaderService"
SECONDS = 60


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certs")


@pytest.fixture
def foreign(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "foreign")


@asynccontextmanager
async def stage(tls: Tls) -> AsyncIterator[str]:
    async with running_server([echo_service(None)], grace_seconds=0, tls=tls) as running:
        yield f"127.0.0.1:{running.port}"


async def ask(channel: grpc.aio.Channel) -> None:
    stub = rpc.DownloaderServiceStub(channel)
    answers = [one async for one in stub.Download(pb.DownloadRequest(), timeout=SECONDS)]
    assert len(answers) == 1


async def refusal(address: str, tls: Tls) -> grpc.aio.AioRpcError:
    """The error of a call that must fail."""
    async with open_direct_channel(address, tls) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(channel)
    return refused.value


async def test_a_caller_that_trusts_the_authority_is_served(authority: Authority) -> None:
    server = replace(authority.issue("downloader"), ca="")
    async with stage(server) as address:
        async with open_channel(address, NAME, tls=Tls(ca=str(authority.file))) as balanced:
            await ask(balanced)
        async with open_direct_channel(address, Tls(ca=str(authority.file))) as direct:
            await ask(direct)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
async def test_the_host_may_be_a_name_or_an_address_of_either_family(
    authority: Authority, host: str
) -> None:
    (port,), tls = free_ports(1), authority.issue("downloader")
    address = f"{host}:{port}"
    async with (
        running_server([echo_service(None)], address, grace_seconds=0, tls=tls),
        open_channel(address, NAME, tls=tls) as channel,
    ):
        await ask(channel)


async def test_a_server_of_another_authority_is_not_believed(
    authority: Authority, foreign: Authority
) -> None:
    async with stage(foreign.issue("downloader")) as address:
        error = await refusal(address, Tls(ca=str(authority.file)))

    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "CERTIFICATE_VERIFY_FAILED" in (error.details() or "")


async def test_a_server_with_the_name_of_another_host_is_not_believed(authority: Authority) -> None:
    async def elsewhere(_: str) -> list[str]:
        return ["127.0.0.1"]

    async with stage(authority.issue("downloader")) as address:
        port = address.rpartition(":")[2]
        named = {"tls": Tls(ca=str(authority.file)), "resolve": elsewhere}
        async with open_channel(f"downloader:{port}", NAME, **named) as channel:  # type: ignore[arg-type]
            await ask(channel)
        async with open_channel(f"bank.test:{port}", NAME, **named) as channel:  # type: ignore[arg-type]
            with pytest.raises(grpc.aio.AioRpcError, match="Hostname Verification Check failed"):
                await ask(channel)


async def test_plain_text_gets_no_answer_from_a_server_with_tls(authority: Authority) -> None:
    async with stage(authority.issue("downloader")) as address:
        error = await refusal(address, PLAIN)

    assert error.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_stage_accepts_the_caller_it_names(authority: Authority) -> None:
    async with (
        stage(authority.issue("downloader", peers="somebody, orchestrator")) as address,
        open_channel(address, NAME, tls=authority.issue("orchestrator")) as channel,
    ):
        await ask(channel)


async def test_a_stage_refuses_a_valid_certificate_with_another_name(authority: Authority) -> None:
    async with stage(authority.issue("downloader", peers="orchestrator")) as address:
        error = await refusal(address, authority.issue("normalizer"))

    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert reason_of(error) == Reason.CALLER_FORBIDDEN
    assert "normalizer" in (error.details() or "")


async def test_a_stage_that_accepts_any_name_still_wants_its_own_authority(
    authority: Authority, foreign: Authority
) -> None:
    async with stage(authority.issue("downloader", peers="*")) as address:
        async with open_direct_channel(address, authority.issue("anyone")) as channel:
            await ask(channel)
        stranger = replace(foreign.issue("orchestrator"), ca=str(authority.file))
        error = await refusal(address, stranger)

    assert error.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("shown", ["foreign", "none"])
async def test_a_caller_without_a_certificate_of_the_authority_is_refused(
    authority: Authority, foreign: Authority, shown: str
) -> None:
    caller = foreign.issue("orchestrator") if shown == "foreign" else PLAIN
    async with stage(authority.issue("downloader", peers="orchestrator")) as address:
        error = await refusal(address, replace(caller, ca=str(authority.file)))

    assert error.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_certificate_without_a_name_is_unauthenticated() -> None:
    class Nameless:
        def auth_context(self) -> dict[str, list[bytes]]:
            return {"x509_common_name": [b""], "transport_security_type": [b"ssl"]}

    with pytest.raises(UnauthenticatedError) as refused:
        async with known_peers(Tls(peers="*"))(Nameless(), "/any"):
            pass

    assert refused.value.reason == Reason.CERTIFICATE_REQUIRED


async def test_health_checks_need_a_certificate_of_any_name(authority: Authority) -> None:
    request = HealthCheckRequest()
    async with stage(authority.issue("downloader", peers="orchestrator")) as address:
        async with open_direct_channel(address, authority.issue("downloader")) as channel:
            stub: Any = HealthStub(channel)
            answer = await stub.Check(request, timeout=SECONDS)
        async with open_direct_channel(address, Tls(ca=str(authority.file))) as channel:
            stub = HealthStub(channel)
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.Check(request, timeout=SECONDS)

    assert answer.status == HealthCheckResponse.SERVING


async def test_a_certificate_replaced_under_load_loses_no_call(authority: Authority) -> None:
    """Callers with one channel, callers that connect each time; both ends get new certificates."""
    server = authority.issue("downloader", peers="orchestrator")
    caller = authority.issue("orchestrator")
    done = [0] * 8
    replaced = asyncio.Event()

    async def steady(number: int, address: str) -> None:
        async with open_channel(address, NAME, tls=caller, every_seconds=0.01) as channel:
            while not replaced.is_set():
                await ask(channel)
                done[number] += 1

    async def new_each_time(number: int, address: str) -> None:
        while not replaced.is_set():
            async with open_direct_channel(address, caller) as channel:
                await ask(channel)
            done[number] += 1

    async with stage(server) as address, asyncio.TaskGroup() as tasks:
        for number in range(8):
            way = new_each_time if number % 4 == 0 else steady
            tasks.create_task(way(number, address))
        certificates = []
        for _ in range(5):
            authority.issue("downloader")
            authority.issue("orchestrator")
            before = list(done)
            await until(partial(_grew, done, before))
            certificates.append(await asyncio.to_thread(shown, address, caller))
        replaced.set()

    assert len(set(certificates)) == 5
    assert certificates[-1] == _text(server.certificate)


def _grew(now: list[int], before: list[int]) -> bool:
    """Whether every caller began and ended a call since."""
    return all(one > then + 1 for one, then in zip(now, before, strict=True))


def _text(path: str) -> str:
    return Path(path).read_text()


async def test_an_open_channel_shows_a_new_certificate_after_it_was_replaced(
    authority: Authority,
) -> None:
    caller = authority.issue("earlier", file="caller")
    async with (
        stage(authority.issue("downloader", peers="later")) as address,
        open_channel(address, NAME, tls=caller, every_seconds=0.01) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError, match="earlier"):
            await ask(channel)
        authority.issue("later", file="caller")

        async def accepted() -> bool:
            with suppress(grpc.aio.AioRpcError):
                await ask(channel)
                return True
            return False

        await until(accepted)


async def test_a_pair_of_which_one_half_was_replaced_is_not_used(authority: Authority) -> None:
    server, caller = authority.issue("downloader"), authority.issue("orchestrator")
    first = _text(server.certificate)
    async with stage(server) as address:
        other = authority.issue("other")
        shutil.copy(other.key, server.key)
        half = await asyncio.to_thread(shown, address, caller)
        shutil.copy(other.certificate, server.certificate)
        whole = await asyncio.to_thread(shown, address, caller)

    assert half == first
    assert whole == _text(other.certificate)


@contextmanager
def metrics(tls: Tls) -> Iterator[str]:
    yield f"https://127.0.0.1:{serve_metrics('127.0.0.1:0', tls)}/metrics"


def scrape(url: str, caller: Tls) -> str:
    context = ReloadingContext.for_client(caller)
    with urlopen(url, timeout=SECONDS, context=context) as answer:  # noqa: S310 # our own
        return str(answer.read().decode())


def test_metrics_are_served_with_the_newest_certificate(authority: Authority) -> None:
    tls, caller = authority.issue("downloader"), Tls(ca=str(authority.file))
    with metrics(tls) as url:
        assert "python_info" in scrape(url, caller)
        address = url.split("/")[2]
        before = shown(address, caller)
        authority.issue("downloader")
        assert shown(address, caller) != before
        with pytest.raises(OSError):  # noqa: PT011 # closed or reset, whichever comes first
            urlopen(url.replace("https:", "http:"), timeout=SECONDS).close()  # noqa: S310


def test_a_silent_caller_of_metrics_delays_no_other(authority: Authority) -> None:
    with (
        metrics(authority.issue("downloader")) as url,
        socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0]))),
    ):
        assert "python_info" in scrape(url, Tls(ca=str(authority.file)))


def test_metrics_of_a_stage_that_names_its_callers_need_a_certificate_of_any_name(
    authority: Authority,
) -> None:
    with metrics(authority.issue("downloader", peers="orchestrator")) as url:
        assert "python_info" in scrape(url, authority.issue("prometheus"))
        with pytest.raises((URLError, OSError)):
            scrape(url, Tls(ca=str(authority.file)))


def _handshake(server: ssl.SSLContext, caller: Tls) -> str:
    """The certificate that the server shows on a connection without a socket."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        ReloadingContext.for_client(caller).wrap_bio(
            to_client, to_server, server_hostname="localhost"
        ),
    ]
    for _ in range(4):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ssl.DER_cert_to_PEM_cert(ends[1].getpeercert(binary_form=True) or b"")


def test_a_pair_is_used_as_it_was_checked_though_a_file_is_replaced_meanwhile(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, other = authority.issue("downloader"), authority.issue("other")
    context = ReloadingContext.for_server(server)
    renewed = _text(authority.issue("downloader").certificate)
    check = context._files.changed

    def replaced_after_the_check() -> bool:
        found = check()
        shutil.copy(other.key, server.key)
        return found

    monkeypatch.setattr(context._files, "changed", replaced_after_the_check)

    assert _handshake(context, Tls(ca=str(authority.file))) == renewed
