"""What the service tells a child to fetch; light, so that the service need not load yt-dlp."""

from dataclasses import dataclass
from typing import Any

PRELOAD = "downloader.preload"
"""The module a fork server loads once, so that no download has to."""


@dataclass(frozen=True, slots=True)
class Order:
    """One download."""

    source_url: str
    folder: str
    """Working directory of the child; pieces of the media rest there for a moment."""

    max_bytes: int
    max_seconds: float
    socket_timeout: float
    proxy: str = ""
    cookies_file: str = ""
    allow_private: bool = False
    exempt: tuple[str, ...] = ()
    """Addresses the guard lets through although they are not public."""


def carry_out(order: Order, media: Any, control: Any) -> None:
    """Where a child begins; the import costs nothing there."""
    from downloader.child import main

    main(order, media.fileno(), control.fileno())


def do_nothing() -> None:
    """A child that only proves that children can be had."""
