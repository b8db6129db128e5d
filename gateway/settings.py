"""Settings of the gateway, from GATEWAY_* environment variables."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mesh.settings import ServiceSettings, old_address

LISTEN = "127.0.0.1:8000"
LEGACY_VARIABLES = {
    "DEFAULT_LANGUAGE": "default_language",
    "DEFAULT_REMOVE_NOISE": "default_remove_noise",
    "DEFAULT_CONVERT_MONO": "default_convert_to_mono",
    "DEFAULT_SAMPLE_RATE_16K": "default_set_sample_rate_16k",
}


class Settings(ServiceSettings):
    """Read once, in __main__, from GATEWAY_* variables; then passed down."""

    model_config = SettingsConfigDict(env_prefix="GATEWAY_", frozen=True, extra="ignore")

    listen: str = LISTEN
    """Address of the HTTP server."""

    metrics_listen: str = "127.0.0.1:9105"
    """Address of the Prometheus endpoint; empty turns it off."""

    orchestrator: str = "127.0.0.1:50051"
    """Addresses of the orchestrator's replicas, separated by commas."""

    hosts: str = ""
    """Host names requests may use, separated by commas; `*`: any. Empty: loopback names; if
    `listen` is not loopback, IP addresses and this machine's own name, too."""

    cors_origins: str = ""
    """Other origins whose pages may call the gateway, separated by commas."""

    trusted_proxies: str = ""
    """Addresses of proxies whose X-Forwarded-For is trusted, separated by commas; empty: none."""

    rate_per_second: float = Field(default=50, ge=0)
    """Sustained requests per second of one client address; 0: unlimited."""

    rate_burst: int = Field(default=200, ge=1)
    """Requests one client address may make in a burst."""

    max_body_bytes: int = Field(default=1024**2, gt=0)
    """Largest request body, except uploads."""

    max_upload_bytes: int = Field(default=8 * 1024**3, gt=0)
    """Largest upload; the orchestrator may allow less."""

    max_streams: int = Field(default=1000, ge=1)
    """Event streams open at once, over all clients."""

    max_streams_per_client: int = Field(default=250, ge=1)
    """Event streams of one client address."""

    max_connections: int = Field(default=4000, ge=1)
    """Connections open at once, over all clients; fewer if the system allows fewer open files."""

    max_connections_per_client: int = Field(default=500, ge=1)
    """Connections of one client address; trusted proxies may have more."""

    head_seconds: float = Field(default=15, gt=0)
    """Time in which the head of a request must arrive."""

    body_seconds: float = Field(default=60, gt=0)
    """A body that brings less than 100 bytes per second over this time is refused."""

    environment: str = "production"
    """Name of this installation in /admin/stats."""

    default_language: str = "auto"
    """Spoken language of jobs that name none."""

    default_remove_noise: bool = True
    """Default of the option remove_noise."""

    default_convert_to_mono: bool = True
    """Default of the option convert_to_mono."""

    default_set_sample_rate_16k: bool = True
    """Default of the option set_sample_rate_16k."""

    @classmethod
    def from_old_names(cls, environ: Mapping[str, str]) -> dict[str, Any]:
        """Reads variables of the earlier system; HOST and PORT become `listen`."""
        found: dict[str, Any] = {
            name: environ[old] for old, name in LEGACY_VARIABLES.items() if old in environ
        }
        return found | old_address(environ, LISTEN)


def comma_separated(value: str) -> list[str]:
    """Splits a setting that holds several values."""
    return [part.strip() for part in value.split(",") if part.strip()]
