"""Commands the service sends to a child process; imports nothing, so the service stays light."""

from dataclasses import dataclass, field
from typing import Any

PRELOAD = "downloader.child.preload"
"""The module the fork server loads once, so that children start with it in memory."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of the yt-dlp client, the same for every command."""

    socket_timeout_seconds: float
    proxy: str = ""
    proxy_is_trusted: bool = True
    """Whether the operator chose it; then it may have a private address."""

    source_address: str = ""
    user_agent: str = ""
    max_bytes_per_second: int = 0
    """0: no limit."""

    request_interval_seconds: float = 0
    cookies_file: str = ""
    js_runtime: str = ""
    """Path of deno; empty: the one installed with ytcaption, else the one on PATH."""

    ffmpeg: str = ""
    """Path of ffmpeg, which joins recordings that come in parts; empty: they are refused."""

    max_page_bytes: int = 32 * 1024**2
    """Most bytes of one page, as it is sent and as it is decompressed; media has its own limit."""

    min_rate_bytes: int = 1024
    """Fewest bytes of media a second; 0: no limit."""

    min_rate_seconds: float = 120
    """How long media may come slower than that."""

    max_memory_bytes: int = 1024**3
    """Memory of the child, and of each program it starts."""

    allow_private_addresses: bool = False
    exempt_addresses: tuple[str, ...] = ()
    """Addresses that may be reached although they are not public; for tests."""


@dataclass(frozen=True, slots=True)
class Command:
    """What a child process is to do with one address."""

    source_url: str
    client_options: ClientOptions
    folder: str = field(default="", kw_only=True)
    """Working directory of the child, where it may write temporary files."""


@dataclass(frozen=True, slots=True)
class DownloadCommand(Command):
    """Download the recording."""

    max_bytes: int
    max_seconds: float
    max_spool_bytes: int


@dataclass(frozen=True, slots=True)
class ResolveCommand(Command):
    """List the recordings behind the address."""

    max_videos: int
    """The child stops after this many."""

    max_entries: int
    """The child looks at no more entries than this, whether they match or not."""

    from_date: str = ""
    to_date: str = ""
    """YYYY-MM-DD, or empty."""


@dataclass(frozen=True, slots=True)
class CaptionsCommand(Command):
    """Find human-made captions."""

    languages: tuple[str, ...]
    max_seconds: float


def run_child(command: Command, media: Any, control: Any) -> None:
    """Entry point of a child; the fork server has the import in memory already."""
    from downloader.child.main import main

    main(command, media.fileno(), control.fileno())
