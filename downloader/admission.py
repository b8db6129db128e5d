"""What is refused before a child is started for it."""

from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from downloader.engine import Wishes
from downloader.order import Manner
from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from mesh.searches import is_search

PROXIES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
LONGEST_USER_AGENT = 500
LONGEST_INTERVAL = timedelta(minutes=1)


def check_address(source_url: str, *, searches: bool = False) -> None:
    """Refuses what can never be fetched."""
    if searches and is_search(source_url):
        return
    try:
        parts = urlsplit(source_url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or any(letter.isspace() or not letter.isprintable() for letter in source_url):
        raise InvalidRequestError(
            "the source must be an http or https address", reason=Reason.UNSUPPORTED_URL
        )


def grant(manner: Manner, wishes: Wishes) -> Manner:
    """The operator's manner, with the caller's wishes as far as it allows them."""
    _check(wishes)
    rates = [rate for rate in (manner.max_bytes_per_second, wishes.max_bytes_per_second) if rate]
    return replace(
        manner,
        user_agent=wishes.user_agent or manner.user_agent,
        max_bytes_per_second=min(rates, default=0),
        request_interval_seconds=max(
            manner.request_interval_seconds, wishes.request_interval.total_seconds()
        ),
        proxy=wishes.proxy or manner.proxy,
        proxy_is_trusted=not wishes.proxy,
    )


def is_proxy(address: str) -> bool:
    """Whether yt-dlp could use it."""
    try:
        parts = urlsplit(address)
        return parts.scheme in PROXIES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_user_agent(text: str) -> bool:
    """Whether it fits into one header, and into nothing else."""
    return text.isascii() and text.isprintable() and len(text) <= LONGEST_USER_AGENT


def _check(wishes: Wishes) -> None:
    wrong = ""
    if not is_user_agent(wishes.user_agent):
        wrong = f"user_agent must be at most {LONGEST_USER_AGENT} printable ASCII characters"
    elif not timedelta(0) <= wishes.request_interval <= LONGEST_INTERVAL:
        wrong = f"request_interval must be between 0 and {LONGEST_INTERVAL.seconds} s"
    elif wishes.proxy and not is_proxy(wishes.proxy):
        wrong = f"proxy must be an address that begins with one of {', '.join(PROXIES)}"
    if wrong:
        raise InvalidRequestError(wrong, reason=Reason.REQUEST_INVALID)
