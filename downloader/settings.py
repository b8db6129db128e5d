"""Everything an operator can change about the downloader."""

import shutil
import tempfile
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import imageio_ffmpeg
from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from downloader.admission import PROXIES, is_proxy, is_user_agent
from downloader.engine import Limits
from downloader.order import Manner
from downloader.ytdlp import Bounds
from mesh.settings import ServiceSettings


class Settings(ServiceSettings):
    """Read once, in __main__, from DOWNLOADER_* variables; then passed down."""

    model_config = SettingsConfigDict(env_prefix="DOWNLOADER_")

    listen: str = "127.0.0.1:50052"
    """Address of the gRPC server."""

    metrics_listen: str = "127.0.0.1:9102"
    """Address of the Prometheus endpoint; empty turns it off."""

    allow_private_addresses: bool = False
    """Let jobs fetch from this machine and its private networks. Only for trusted callers."""

    max_bytes: int = Field(default=8 * 1024**3, ge=1)
    """Most bytes of one recording; a request may ask for less, never for more."""

    max_duration_seconds: float = Field(default=12 * 3600, gt=0)
    """Longest recording; a request may ask for less, never for more."""

    socket_timeout_seconds: float = Field(default=15, gt=0)
    """How long a site may stay silent before the connection counts as lost."""

    proxy: str = ""
    """Proxy for every connection: http, https or socks. Empty: none, whatever HTTP_PROXY says.
    It may be anywhere. The guard checks the host handed to it as far as names resolve here."""

    allow_caller_proxy: bool = False
    """Let a request name a proxy of its own, at a public address. It is a way around the guard:
    only for trusted callers."""

    source_address: str = ""
    """Local address that connections are made from; empty: whichever the system takes."""

    user_agent: str = ""
    """User agent shown to sites; empty: yt-dlp's own. A request may name another."""

    rate_limit_bytes: int = Field(default=0, ge=0)
    """Most bytes a second of one download; 0: no limit. A request may ask for less."""

    sleep_seconds: float = Field(default=0, ge=0, le=60)
    """Wait between two requests while a page is read, and before the media. A request may ask
    for more."""

    cookies_file: str = ""
    """Netscape cookies file for sites that want a login; read, never written, never told."""

    js_runtime: str = ""
    """Path of deno, which solves YouTube's puzzles; empty: the one installed with us, else the one
    on PATH."""

    ffmpeg: str = ""
    """Path of ffmpeg, which joins recordings that come in parts; empty: the one on PATH, else the
    one that came as a wheel."""

    work_dir: Path = Field(
        default_factory=lambda: Path(tempfile.gettempdir(), "ytcaption-downloader")
    )
    """Where pieces of a download rest for a moment."""

    max_downloads: int = Field(default=4, ge=1)
    """Downloads at once, and as many lookups; the rest wait."""

    max_videos: int = Field(default=1000, ge=1)
    """Most recordings of one playlist, channel or search; a request may ask for less."""

    max_entries: int = Field(default=10_000, ge=1)
    """Most entries of a list that are looked at, wanted or not."""

    max_spool_bytes: int = Field(default=2 * 1024**3, ge=1)
    """Largest recording that has to be put together on disk before it can be sent."""

    @property
    def limits(self) -> Limits:
        """The most any request gets."""
        return Limits(self.max_bytes, timedelta(seconds=self.max_duration_seconds))

    @property
    def manner(self) -> Manner:
        """How sites are asked."""
        return Manner(
            socket_timeout_seconds=self.socket_timeout_seconds,
            proxy=self.proxy,
            source_address=self.source_address,
            user_agent=self.user_agent,
            max_bytes_per_second=self.rate_limit_bytes,
            request_interval_seconds=self.sleep_seconds,
            cookies_file=self.cookies_file,
            js_runtime=self.js_runtime,
            ffmpeg=self.ffmpeg or _ffmpeg(),
            allow_private_addresses=self.allow_private_addresses,
        )

    @property
    def bounds(self) -> Bounds:
        """The most anybody gets."""
        return Bounds(
            max_downloads=self.max_downloads,
            max_videos=self.max_videos,
            max_entries=self.max_entries,
            max_spool_bytes=self.max_spool_bytes,
            allow_caller_proxy=self.allow_caller_proxy,
        )

    @field_validator("cookies_file", "js_runtime", "ffmpeg")
    @classmethod
    def _exists(cls, path: str) -> str:
        if path and not Path(path).is_file():
            raise ValueError("no such file")
        return path

    @field_validator("proxy")
    @classmethod
    def _is_a_proxy(cls, address: str) -> str:
        if address and not is_proxy(address):
            raise ValueError(f"must begin with one of {', '.join(PROXIES)}")
        return address

    @field_validator("source_address")
    @classmethod
    def _is_an_address(cls, address: str) -> str:
        if address:
            ip_address(address)
        return address

    @field_validator("user_agent")
    @classmethod
    def _fits_a_header(cls, text: str) -> str:
        if not is_user_agent(text):
            raise ValueError("must be printable ASCII, and not long")
        return text


def _ffmpeg() -> str:
    try:
        return shutil.which("ffmpeg") or str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError:
        return ""
