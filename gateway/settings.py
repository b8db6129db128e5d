"""Everything an operator can change about the gateway."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mesh.settings import ServiceSettings

HOST, PORT = "127.0.0.1", "8000"
OLD_NAMES = {
    "DEFAULT_LANGUAGE": "default_language",
    "DEFAULT_REMOVE_NOISE": "default_remove_noise",
    "DEFAULT_CONVERT_MONO": "default_convert_to_mono",
    "DEFAULT_SAMPLE_RATE_16K": "default_set_sample_rate_16k",
}


class Settings(ServiceSettings):
    """Read once, in __main__, from GATEWAY_* variables; then passed down."""

    model_config = SettingsConfigDict(env_prefix="GATEWAY_", frozen=True, extra="ignore")

    listen: str = f"{HOST}:{PORT}"
    """Address of the HTTP server."""

    metrics_listen: str = "127.0.0.1:9105"
    """Address of the Prometheus endpoint; empty turns it off."""

    orchestrator: str = "127.0.0.1:50051"
    """Addresses of the orchestrator's replicas, separated by commas."""

    hosts: str = ""
    """Names a browser may call us by, separated by commas; empty: those of loopback if we listen
    there, else any."""

    cors_origins: str = ""
    """Origins whose pages may call us, separated by commas; empty: none but our own."""

    trusted_proxies: str = ""
    """Addresses of proxies whose X-Forwarded-For is believed, separated by commas; empty: none."""

    rate_per_second: float = Field(default=50, ge=0)
    """Requests a second one client address may make in the long run; 0: as many as it likes."""

    rate_burst: int = Field(default=200, ge=1)
    """Requests it may make at once."""

    max_body_bytes: int = Field(default=1024**2, gt=0)
    """Largest body of a request that is no upload."""

    max_upload_bytes: int = Field(default=8 * 1024**3, gt=0)
    """Largest file taken; the orchestrator may allow less."""

    max_streams: int = Field(default=1000, ge=1)
    """Event streams open at once, over all clients."""

    environment: str = "production"
    """What /admin/stats calls this installation."""

    default_language: str = "auto"
    """Language of the speech where the caller names none."""

    default_remove_noise: bool = True
    """Whether the kept audio is denoised where the caller does not say."""

    default_convert_to_mono: bool = True
    """Whether the kept audio has one channel where the caller does not say."""

    default_set_sample_rate_16k: bool = True
    """Whether the kept audio has 16 kHz where the caller does not say."""

    @classmethod
    def from_old_names(cls, environ: Mapping[str, str]) -> dict[str, Any]:
        """HOST and PORT are one setting here."""
        found: dict[str, Any] = {
            name: environ[old] for old, name in OLD_NAMES.items() if old in environ
        }
        if "HOST" in environ or "PORT" in environ:
            host = environ.get("HOST", HOST)
            host = f"[{host}]" if ":" in host else host
            found["listen"] = f"{host}:{environ.get('PORT', PORT)}"
        return found


def listed(words: str) -> list[str]:
    """The parts of a setting that holds several."""
    return [word.strip() for word in words.split(",") if word.strip()]
