"""Request validation: refuses bad addresses and options before a child process is started."""

from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from downloader.commands import ClientOptions
from downloader.engine import DownloadOptions
from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from mesh.searches import is_search

PROXY_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
MAX_USER_AGENT = 500
MAX_INTERVAL = timedelta(minutes=1)


def check_address(source_url: str, *, searches: bool = False) -> None:
    """Refuses a source that is neither an HTTP address nor, where allowed, a search."""
    if searches and is_search(source_url):
        return
    plain = not any(letter.isspace() or not letter.isprintable() for letter in source_url)
    if not (plain and _has_host(source_url, ("http", "https"))):
        raise InvalidRequestError(
            "the source must be an http or https address", reason=Reason.UNSUPPORTED_URL
        )


def grant(operator: ClientOptions, caller: DownloadOptions) -> ClientOptions:
    """The operator's options, changed by the caller's as far as the operator's limits allow."""
    _check(caller)
    if 0 < caller.max_bytes_per_second < operator.min_rate_bytes:
        # Our own limit would hold the download up where a site must not.
        raise InvalidRequestError(
            f"max_bytes_per_second must be at least {operator.min_rate_bytes} here"
        )
    rates = [rate for rate in (operator.max_bytes_per_second, caller.max_bytes_per_second) if rate]
    return replace(
        operator,
        user_agent=caller.user_agent or operator.user_agent,
        max_bytes_per_second=min(rates, default=0),
        request_interval_seconds=max(
            operator.request_interval_seconds, caller.request_interval.total_seconds()
        ),
        proxy=caller.proxy or operator.proxy,
        proxy_is_trusted=not caller.proxy,
    )


def checked_proxy(address: str) -> str:
    """The same address; raises ValueError if it is not that of a proxy yt-dlp supports."""
    if address and not _has_host(address, PROXY_SCHEMES):
        raise ValueError(f"must be a URL with one of the schemes {', '.join(PROXY_SCHEMES)}")
    return address


def checked_user_agent(text: str) -> str:
    """The same text; raises ValueError unless it is safe and short enough for the header."""
    if not (text.isascii() and text.isprintable() and len(text) <= MAX_USER_AGENT):
        raise ValueError(f"must be at most {MAX_USER_AGENT} printable ASCII characters")
    return text


def _has_host(url: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _check(options: DownloadOptions) -> None:
    for name, check in (("user_agent", checked_user_agent), ("proxy", checked_proxy)):
        try:
            check(getattr(options, name))
        except ValueError as error:
            raise InvalidRequestError(f"{name} {error}") from error
    if not timedelta(0) <= options.request_interval <= MAX_INTERVAL:
        raise InvalidRequestError(
            f"request_interval must be between 0 and {MAX_INTERVAL.seconds} s"
        )
