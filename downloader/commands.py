"""What the service tells a child to do; light, so that the service need not load yt-dlp."""

from dataclasses import dataclass
from typing import Any

PRELOAD = "downloader.preload"
"""The module a fork server loads once, so that no download has to."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How to ask a site, whatever is asked for."""

    socket_timeout_seconds: float
    proxy: str = ""
    proxy_is_trusted: bool = True
    """Whether the operator chose it; then it may be anywhere."""

    source_address: str = ""
    user_agent: str = ""
    max_bytes_per_second: int = 0
    """0: as fast as it comes."""

    request_interval_seconds: float = 0
    cookies_file: str = ""
    js_runtime: str = ""
    """Path of deno; empty: the one installed beside us, else the one on PATH."""

    ffmpeg: str = ""
    """Path of ffmpeg, which joins recordings that come in parts; empty: such are refused."""

    allow_private_addresses: bool = False
    exempt_addresses: tuple[str, ...] = ()
    """Addresses that are reached although they are not public; to test what lies behind them."""


@dataclass(frozen=True, slots=True)
class Order:
    """Something to be done about one address."""

    source_url: str
    folder: str
    """Working directory of the child; pieces of the media rest there for a moment."""

    manner: Manner


@dataclass(frozen=True, slots=True)
class FetchOrder(Order):
    """Fetch the recording."""

    max_bytes: int
    max_seconds: float
    max_spool_bytes: int


@dataclass(frozen=True, slots=True)
class ListOrder(Order):
    """Name the recordings behind the address."""

    max_videos: int
    """The child stops after this many."""

    max_entries: int
    """The child looks at no more than this, wanted or not."""

    from_date: str = ""
    to_date: str = ""
    """YYYY-MM-DD, or empty."""


@dataclass(frozen=True, slots=True)
class CaptionsOrder(Order):
    """Find captions a human made."""

    languages: tuple[str, ...]
    max_seconds: float


def carry_out(order: Order, media: Any, control: Any) -> None:
    """Where a child begins; the import costs nothing there."""
    from downloader.child import main

    main(order, media.fileno(), control.fileno())


def do_nothing() -> None:
    """A child that only proves that children can be had."""
