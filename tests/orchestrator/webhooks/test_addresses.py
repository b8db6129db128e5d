"""What can never be delivered is refused when it is asked for."""

import pytest
from pydantic import SecretStr

from mesh.errors import InvalidRequestError, MeshError, SourceRefusedError
from orchestrator.settings import Settings
from orchestrator.webhooks.addresses import check_webhook
from tests.orchestrator.webhooks.receiver import SECRET

ON = Settings(webhook_secret=SecretStr(SECRET))


def reason(url: str, settings: Settings = ON) -> str:
    with pytest.raises(MeshError) as caught:
        check_webhook(url, settings)
    return caught.value.reason


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/a?token=b",
        "http://hooks.example.com:8080",
        "https://93.184.216.34/hook",
        "https://[2606:4700::1111]:8443/hook",
    ],
)
def test_a_public_address_is_accepted(url: str) -> None:
    assert check_webhook(f" {url}\n", ON) == url


def test_an_empty_address_is_accepted_whether_webhooks_are_on_or_off() -> None:
    assert check_webhook(" ", Settings()) == ""


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "10.1.2.3",
        "192.168.0.1:8080",
        "169.254.169.254",
        "168.63.129.16",
        "0.0.0.0",  # noqa: S104 # refused, not bound
        "127.0.0.1.",
        "[::1]",
        "[::ffff:127.0.0.1]:80",
        "[fd00:ec2::254]",
        "localhost",
        "LOCALHOST.",
        "api.localhost:9000",
    ],
)
def test_a_private_host_is_forbidden_unless_the_operator_allows_it(
    host: str,
) -> None:
    url = f"http://{host}/hook"

    assert reason(url) == "ADDRESS_FORBIDDEN"
    assert check_webhook(url, ON.model_copy(update={"webhook_private": True})) == url


def test_without_a_secret_webhooks_are_off() -> None:
    with pytest.raises(SourceRefusedError) as caught:
        check_webhook("https://hooks.example.com", Settings())

    assert caught.value.reason == "WEBHOOKS_OFF"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://hooks.example.com",
        "hooks.example.com",
        "https://",
        "https:///hook",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:99999/",
        "https://hooks.example.com:x/",
        "https://[::1/",
        "https://hooks.example.com/a b",
        "https://hooks.example.com/\x00",
        "https://höoks.example.com/",
        "https://user:word@hooks.example.com/",
        "https://user@hooks.example.com/",
        "https://hooks.example.com/" + "x" * 2048,
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_webhook(url, ON)

    assert "word" not in str(caught.value).replace("password", "")
