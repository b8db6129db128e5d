"""Everything an operator can change about the downloader."""

import tempfile
from datetime import timedelta
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from downloader.engine import Limits
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
    """Proxy for every connection. Empty: none, whatever HTTP_PROXY says. What it lets
    through is the proxy's affair: private addresses behind it cannot be checked from here."""

    cookies_file: str = ""
    """Netscape cookies file for sites that want a login; read, never written."""

    work_dir: Path = Field(
        default_factory=lambda: Path(tempfile.gettempdir(), "ytcaption-downloader")
    )
    """Where pieces of a download rest for a moment."""

    max_downloads: int = Field(default=4, ge=1)
    """Downloads at once; the rest wait."""

    @property
    def limits(self) -> Limits:
        """The most any request gets."""
        return Limits(self.max_bytes, timedelta(seconds=self.max_duration_seconds))

    @field_validator("cookies_file")
    @classmethod
    def _exists(cls, path: str) -> str:
        if path and not Path(path).is_file():
            raise ValueError("no such file")
        return path
