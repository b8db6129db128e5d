"""Signatures by the Standard Webhooks scheme."""

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime

from standardwebhooks.webhooks import Webhook

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
"""Bytes of a key, as the scheme wants them."""


def keys(secret: str) -> list[bytes]:
    """The keys a setting names; ValueError, which never shows them, if one is none."""
    return [_key(word) for word in secret.split()]


def _key(word: str) -> bytes:
    text = word.removeprefix(PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError(f"a webhook secret is {PREFIX} and base64") from None
    if not SHORTEST <= len(key) <= LONGEST:
        raise ValueError(f"a webhook secret holds {SHORTEST} to {LONGEST} bytes in base64")
    return key


class Signer:
    """Signs with every key, so that receivers can change from one to the next."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._webhooks = [Webhook(secret) for secret in secrets]

    def headers(self, event_id: str, moment: datetime, body: bytes) -> dict[str, str]:
        """The three headers of one attempt; `moment` is in UTC."""
        text = body.decode()
        signatures = [webhook.sign(event_id, moment, text) for webhook in self._webhooks]
        return {
            "webhook-id": event_id,
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": " ".join(signatures),
        }
