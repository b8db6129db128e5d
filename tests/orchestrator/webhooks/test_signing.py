"""Webhooks are signed as the scheme says, with keys that are keys."""

import base64
import hmac
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr, ValidationError
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from orchestrator.settings import Settings, webhook_keys
from orchestrator.webhooks.sender import Signer
from tests.orchestrator.webhooks.receiver import SECRET

OTHER = "whsec_" + base64.b64encode(b"another key, for the next year").decode()
BODY = '{"type":"job.finished","data":{"title":"é"}}'.encode()


def test_the_reference_library_accepts_the_signature() -> None:
    headers = Signer(webhook_keys(SECRET)).headers("an-id", datetime.now(UTC), BODY)

    assert Webhook(SECRET).verify(BODY, headers)["type"] == "job.finished"


def test_the_signature_is_that_of_the_specification() -> None:
    headers = Signer(webhook_keys(SECRET)).headers(
        "an-id", datetime.fromtimestamp(1700000000.9, UTC), BODY
    )
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = hmac.digest(key, b"an-id.1700000000." + BODY, "sha256")

    assert headers == {
        "webhook-id": "an-id",
        "webhook-timestamp": "1700000000",
        "webhook-signature": f"v1,{base64.b64encode(expected).decode()}",
    }


def test_a_receiver_may_know_either_of_two_secrets() -> None:
    headers = Signer(webhook_keys(f"{OTHER} {SECRET}")).headers("an-id", datetime.now(UTC), BODY)

    assert Webhook(OTHER).verify(BODY, headers) == Webhook(SECRET).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY + b" ", headers)


def test_a_secret_may_come_without_prefix_and_padding() -> None:
    assert webhook_keys(SECRET.removeprefix("whsec_")) == webhook_keys(SECRET)
    assert webhook_keys(OTHER.rstrip("=")) == webhook_keys(OTHER)
    assert webhook_keys("") == []


@pytest.mark.parametrize("secret", ["hunter2", "whsec_hunter2", "whsec_" + "A" * 100, "whsec_é"])
def test_an_invalid_secret_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(webhook_secret=SecretStr(secret))

    assert "webhook_secret" in str(caught.value)
    assert secret not in str(caught.value)


def test_settings_do_not_show_their_secret() -> None:
    assert SECRET not in repr(Settings(webhook_secret=SecretStr(SECRET)))
