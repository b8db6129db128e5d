"""Which addresses webhooks may be sent to; checked on request and again at every connection."""

import socket
from ipaddress import IPv4Address
from urllib.parse import SplitResult, urlsplit

from mesh.errors import InvalidRequestError, SourceRefusedError
from mesh.public_addresses import is_public
from mesh.reasons import Reason
from orchestrator.settings import Settings

MAX_URL = 2048


def check_webhook(url: str, settings: Settings) -> str:
    """The stripped address, or "" if none is given; raises if it is invalid or forbidden."""
    url = url.strip()
    if not url:
        return ""
    if not settings.webhook_secret.get_secret_value().split():
        raise SourceRefusedError(
            "webhooks are off: the operator has set no secret to sign them with",
            reason=Reason.WEBHOOKS_OFF,
        )
    host = (_parts(url).hostname or "").rstrip(".")
    if not settings.webhook_private and is_forbidden_host(host):
        raise SourceRefusedError(
            f"webhooks are not sent to {host}: it is not a public address",
            reason=Reason.ADDRESS_FORBIDDEN,
        )
    return url


def _parts(url: str) -> SplitResult:
    if len(url) > MAX_URL:
        raise InvalidRequestError(f"webhook_url is over {MAX_URL} characters")
    clean = url.isascii() and url.isprintable() and " " not in url
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port, or half a bracket
        usable = False
    if not clean or not usable:
        raise InvalidRequestError(
            "webhook_url is not an http or https address of ASCII characters",
            reason=Reason.UNSUPPORTED_URL,
        )
    if "@" in parts.netloc:
        raise InvalidRequestError("webhook_url must not hold a user name or password")
    return parts


def is_forbidden_host(host: str) -> bool:
    """Whether the host is a private address as written; other names are checked at connect."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    if ":" in host:
        return not is_public(host)
    try:
        # As the system reads it: 127.1, 0x7f000001 and 2130706433 are addresses too.
        return not is_public(str(IPv4Address(socket.inet_aton(host))))
    except OSError:
        return False
