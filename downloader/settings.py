"""Everything an operator can change about the downloader."""

import shutil
from dataclasses import fields
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import imageio_ffmpeg
from pydantic import AfterValidator, Field, field_validator
from pydantic_settings import SettingsConfigDict

from downloader.admission import checked_proxy, checked_user_agent
from downloader.commands import ClientOptions
from downloader.engine import MediaLimits
from downloader.ytdlp_engine import ServiceLimits
from mesh.settings import StageSettings, default_work_dir


class Settings(StageSettings):
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

    proxy: Annotated[str, AfterValidator(checked_proxy)] = ""
    """Proxy for every connection: http, https or socks. Empty: none, even if HTTP_PROXY is set.
    It may have a private address. The guard checks the hosts it is asked for as far as their names
    resolve here."""

    allow_caller_proxy: bool = False
    """Let a request name its own proxy, at a public address. This bypasses the guard: only for
    trusted callers."""

    source_address: str = ""
    """Local address to connect from; empty: the system chooses."""

    user_agent: Annotated[str, AfterValidator(checked_user_agent)] = ""
    """User agent sent to sites; empty: yt-dlp's own. A request may name another."""

    rate_limit_bytes: int = Field(default=0, ge=0)
    """Most bytes a second of one download; 0: no limit. A request may ask for less."""

    sleep_seconds: float = Field(default=0, ge=0, le=60)
    """Wait between two requests while a page is read, and before the media. A request may ask
    for more."""

    cookies_file: str = ""
    """Netscape cookies file for sites that require a login; read, never written, never shown in
    messages or logs."""

    js_runtime: str = ""
    """Path of deno, which runs YouTube's JavaScript challenges; empty: the one installed with
    ytcaption, else the one on PATH."""

    ffmpeg: str = ""
    """Path of ffmpeg, which joins recordings that come in parts; empty: the one on PATH, else the
    one installed as a wheel."""

    work_dir: Path = Field(default_factory=partial(default_work_dir, "downloader"))
    """Folder for the temporary files of downloads."""

    min_rate_bytes: int = Field(default=1024, ge=0)
    """Fewest bytes of media a second; 0: no limit. Only the time the site takes counts."""

    min_rate_seconds: float = Field(default=120, gt=0)
    """How long media may come slower than that."""

    max_downloads: int = Field(default=16, ge=1)
    """Concurrent downloads, and as many concurrent lookups; the rest wait."""

    max_videos: int = Field(default=1000, ge=1)
    """Most recordings of one playlist, channel or search; a request may ask for less."""

    max_entries: int = Field(default=10_000, ge=1)
    """Most entries of a list that are looked at, whether they match or not."""

    max_spool_bytes: int = Field(default=2 * 1024**3, ge=1)
    """Largest recording that is joined from parts on disk before it is sent."""

    max_page_bytes: int = Field(default=32 * 1024**2, ge=1)
    """Most bytes of one web page or playlist, as it is sent and as it is decompressed."""

    max_memory_bytes: int = Field(default=1024**3, ge=512 * 1024**2)
    """Memory of each child process, and of each program it starts."""

    @property
    def media_limits(self) -> MediaLimits:
        """Upper limits of every request."""
        return MediaLimits(self.max_bytes, timedelta(seconds=self.max_duration_seconds))

    @property
    def client_options(self) -> ClientOptions:
        """Options of the yt-dlp client."""
        return ClientOptions(
            socket_timeout_seconds=self.socket_timeout_seconds,
            proxy=self.proxy,
            source_address=self.source_address,
            user_agent=self.user_agent,
            max_bytes_per_second=self.rate_limit_bytes,
            request_interval_seconds=self.sleep_seconds,
            cookies_file=self.cookies_file,
            js_runtime=self.js_runtime,
            ffmpeg=self.ffmpeg or _ffmpeg(),
            max_page_bytes=self.max_page_bytes,
            min_rate_bytes=self.min_rate_bytes,
            min_rate_seconds=self.min_rate_seconds,
            max_memory_bytes=self.max_memory_bytes,
            allow_private_addresses=self.allow_private_addresses,
        )

    @property
    def service_limits(self) -> ServiceLimits:
        """Limits of the service."""
        return ServiceLimits(**{one.name: getattr(self, one.name) for one in fields(ServiceLimits)})

    @field_validator("cookies_file", "js_runtime", "ffmpeg")
    @classmethod
    def _exists(cls, path: str) -> str:
        if path and not Path(path).is_file():
            raise ValueError("no such file")
        return path

    @field_validator("source_address")
    @classmethod
    def _is_an_address(cls, address: str) -> str:
        if address:
            ip_address(address)
        return address


def _ffmpeg() -> str:
    try:
        return shutil.which("ffmpeg") or str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError:
        return ""
