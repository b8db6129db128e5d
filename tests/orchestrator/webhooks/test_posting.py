"""A request goes to the address that was checked, and nowhere else."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import httpcore2
import pytest

from mesh.reasons import Reason
from orchestrator.webhooks.posting import Answer, Poster
from tests.orchestrator.webhooks.deliveries import PATIENCE_SECONDS
from tests.orchestrator.webhooks.receiver import HANG, Receiver, Reply, receiving
from tests.support.timeouts import Timeouts

CERTIFICATE = str(Path(__file__).parents[2] / "data" / "hooks.example.test.pem")
PUBLIC = "93.184.216.34"
NAME = "hooks.example.test"


async def post(url: str, *, private: bool = True) -> Answer:
    async with Poster.opened(private=private, seconds=PATIENCE_SECONDS, at_once=4) as poster:
        destination = await poster.resolve(url)
        return await poster.post(url, {"webhook-id": "an-id"}, b"{}", destination)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names resolve to; those with an empty list to nothing."""
    answers: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in answers:
            return real(host, port, *more, **named)
        if not answers[name]:
            raise socket.gaierror("no such name")
        return [entry for ip in answers[name] for entry in real(ip, port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return answers


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> list[str]:
    """The addresses connected to; every connection goes to the receiver."""
    addresses: list[str] = []
    connect = httpcore2.AnyIOBackend.connect_tcp

    async def connect_tcp(self: Any, host: str, port: int, *more: Any, **named: Any) -> Any:
        addresses.append(host)
        return await connect(self, "127.0.0.1", port, *more, **named)

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_tcp)
    return addresses


def named(receiver: Receiver, name: str = NAME) -> str:
    return receiver.url.replace("127.0.0.1", name)


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:127.0.0.1"]],
)
async def test_a_name_with_any_private_address_is_refused_before_connecting(
    receiver: Receiver,
    resolver: dict[str, list[str]],
    connections: list[str],
    addresses: list[str],
) -> None:
    resolver[NAME] = addresses

    answer = await post(named(receiver), private=False)

    assert (answer.status, answer.taken) == (0, False)
    assert "not at a public address" in answer.error
    assert (connections, receiver.received) == ([], [])


async def test_the_connection_goes_to_the_address_that_was_checked_under_its_name(
    receiver: Receiver, resolver: dict[str, list[str]], connections: list[str]
) -> None:
    resolver[NAME] = [PUBLIC]

    answer = await post(named(receiver) + "?a=b", private=False)

    assert answer.taken
    assert connections == [PUBLIC]  # a number: the name is not looked up again
    (received,) = receiver.received
    assert received.headers["host"] == named(receiver).split("/")[2]
    assert received.target == "/hook?a=b"


async def test_a_loopback_address_is_refused_when_connecting_too(receiver: Receiver) -> None:
    answer = await post(receiver.url, private=False)

    assert "not at a public address" in answer.error
    assert receiver.received == []


async def test_redirects_are_not_followed(receiver: Receiver) -> None:
    receiver.answer(Reply(302, {"Location": receiver.url + "/elsewhere"}))

    answer = await post(receiver.url)

    assert (answer.status, answer.taken) == (302, False)
    assert "redirect" in answer.error
    assert len(receiver.received) == 1


async def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)

        assert (await post(receiver.url)).taken
        assert (len(receiver.received), proxy.received) == (1, [])


async def test_a_receiver_that_does_not_answer_has_not_accepted_the_webhook(
    receiver: Receiver, patience: Timeouts
) -> None:
    receiver.answer(HANG)
    posting = asyncio.create_task(post(receiver.url))
    await receiver.wait_for(1)
    patience.expire()

    assert await posting == Answer(0, f"no answer within {PATIENCE_SECONDS} s")


async def test_only_the_beginning_of_a_long_response_is_read(receiver: Receiver) -> None:
    receiver.answer(Reply(endless=True))

    assert await post(receiver.url) == Answer(200)
    assert receiver.written < 32 * 1024**2, "more than the buffers on the way hold"


async def test_retry_after_is_read_from_the_response(receiver: Receiver) -> None:
    receiver.answer(Reply(503, {"Retry-After": "90"}))

    assert await post(receiver.url) == Answer(503, "answered 503: not taken", 90)


async def test_a_failed_connection_or_lookup_is_reported_not_raised(
    resolver: dict[str, list[str]],
) -> None:
    resolver["nowhere.example.test"] = []
    async with receiving() as gone:
        pass

    assert "cannot connect" in (await post(gone.url)).error
    assert "cannot be resolved" in (await post("http://nowhere.example.test/")).error


async def test_an_invalid_http_response_is_reported_not_raised(receiver: Receiver) -> None:
    receiver.answer(Reply(200, {"Content-Length": "1\r\nContent-Length: 2"}))

    assert await post(receiver.url) == Answer(0, "conflicting Content-Length headers")


async def test_a_fault_of_ours_counts_as_an_attempt(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr(httpcore2.AsyncConnectionPool, "stream", broken)

    assert await post(receiver.url) == Answer(0, "a fault of ours; the log knows more")


async def test_an_untrusted_certificate_is_refused(resolver: dict[str, list[str]]) -> None:
    resolver[NAME] = ["127.0.0.1"]
    async with receiving(CERTIFICATE) as receiver:
        answer = await post(named(receiver))

    assert "CERTIFICATE_VERIFY_FAILED" in answer.error
    assert receiver.received == []


async def test_tls_uses_and_verifies_the_host_name_not_the_address(
    resolver: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATE)
    resolver[NAME] = resolver["other.example.test"] = ["127.0.0.1"]
    async with receiving(CERTIFICATE) as receiver:
        assert (await post(named(receiver))).taken
        wrong = await post(named(receiver, "other.example.test"))

    assert receiver.names == [NAME, "other.example.test"]
    assert "mismatch" in wrong.error.lower()
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (410, Reason.WEBHOOK_REFUSED),
        (429, Reason.RATE_LIMITED),
        (503, Reason.WEBHOOK_UNDELIVERED),
        (0, Reason.WEBHOOK_UNDELIVERED),
    ],
)
def test_the_retry_policy_gets_the_reason_and_what_the_receiver_asked_for(
    status: int, reason: Reason
) -> None:
    failure = Answer(status, "not taken", 90).failure

    assert failure.reason is reason
    assert failure.retry_after_seconds == 90
