"""The settings of every service that decide who may reach it, read as the services read them.

The command imports no service, so the fields are named again here; a test compares them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from mesh.old_names import stage_addresses
from mesh.settings import ServiceSettings, StageSettings, old_address


def _config(service: str) -> SettingsConfigDict:
    # Values may be secrets.
    return SettingsConfigDict(env_prefix=f"{service.upper()}_", hide_input_in_errors=True)


class OrchestratorSettings(ServiceSettings):
    """Those of ORCHESTRATOR_*."""

    model_config = _config("orchestrator")

    listen: str = "127.0.0.1:50051"
    metrics_listen: str = "127.0.0.1:9101"
    login: bool = False
    token_file: str = ""
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret_file: str = ""
    oidc_redirect: str = ""
    oidc_scopes: str = "openid profile email"
    oidc_roles: str = ""
    reflection: bool = True
    nats_url: str = "nats://127.0.0.1:4222"
    nats_credentials: str = ""
    downloader: str = "127.0.0.1:50052"
    normalizer: str = "127.0.0.1:50053"
    transcriber: str = "127.0.0.1:50054"
    stages_token_file: str = ""
    min_free_bytes: int = 256 * 1024**2
    full_percent: float = 95
    webhook_private: bool = False

    @classmethod
    def from_old_names(cls, environ: Mapping[str, str]) -> dict[str, Any]:
        """The addresses of the stages, as the orchestrator reads them."""
        return dict(stage_addresses(environ))

    @property
    def knows_callers(self) -> bool:
        """By their tokens, or by the names in their certificates."""
        return self.login or bool(self.tls.names)


class DownloaderSettings(StageSettings):
    """Those of DOWNLOADER_*."""

    model_config = _config("downloader")

    listen: str = "127.0.0.1:50052"
    metrics_listen: str = "127.0.0.1:9102"
    allow_private_addresses: bool = False
    allow_caller_proxy: bool = False
    cookies_file: str = ""
    min_rate_bytes: int = 1024


class NormalizerSettings(StageSettings):
    """Those of NORMALIZER_*."""

    model_config = _config("normalizer")

    listen: str = "127.0.0.1:50053"
    metrics_listen: str = "127.0.0.1:9103"


class TranscriberSettings(StageSettings):
    """Those of TRANSCRIBER_*."""

    model_config = _config("transcriber")

    listen: str = "127.0.0.1:50054"
    metrics_listen: str = "127.0.0.1:9104"


GATEWAY = "127.0.0.1:8000"


class GatewaySettings(ServiceSettings):
    """Those of GATEWAY_*."""

    model_config = _config("gateway")

    listen: str = GATEWAY
    metrics_listen: str = "127.0.0.1:9105"
    orchestrator: str = "127.0.0.1:50051"
    hosts: str = ""
    trusted_proxies: str = ""
    rate_per_second: float = 50

    @classmethod
    def from_old_names(cls, environ: Mapping[str, str]) -> dict[str, Any]:
        """HOST and PORT, as the gateway reads them."""
        return old_address(environ, GATEWAY)


@dataclass(frozen=True, slots=True)
class MeshSettings:
    """The settings of all services."""

    orchestrator: OrchestratorSettings
    downloader: DownloaderSettings
    normalizer: NormalizerSettings
    transcriber: TranscriberSettings
    gateway: GatewaySettings
    made_at_start: frozenset[str] = field(default=frozenset())
    """Files that `ytcaption up` makes new, readable by their owner alone."""

    @property
    def services(self) -> dict[str, ServiceSettings]:
        """All of them, by name."""
        return {
            "orchestrator": self.orchestrator,
            **self.stages,
            "gateway": self.gateway,
        }

    @property
    def stages(self) -> dict[str, StageSettings]:
        """Those of the services that the orchestrator alone calls."""
        return {
            "downloader": self.downloader,
            "normalizer": self.normalizer,
            "transcriber": self.transcriber,
        }


CLASSES: dict[str, type[ServiceSettings]] = {
    "orchestrator": OrchestratorSettings,
    "downloader": DownloaderSettings,
    "normalizer": NormalizerSettings,
    "transcriber": TranscriberSettings,
    "gateway": GatewaySettings,
}


def read_settings(
    variables: Mapping[str, str], made_at_start: frozenset[str] = frozenset()
) -> MeshSettings:
    """Reads the environment; `variables` take precedence, as those that `up` sets do.

    Raises ValueError with a line for each invalid variable, without its value.
    """
    found: dict[str, Any] = {}
    wrong: list[str] = []
    for name, settings in CLASSES.items():
        prefix = f"{name.upper()}_"
        given: dict[str, Any] = {
            key.removeprefix(prefix).lower(): value
            for key, value in variables.items()
            if key.startswith(prefix)
        }
        try:
            found[name] = settings(**given)
        except ValidationError as error:
            wrong += [
                f"{prefix}{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}"
                for one in error.errors(include_input=False, include_url=False)
            ]
    if wrong:
        raise ValueError("\n".join(wrong))
    return MeshSettings(**found, made_at_start=made_at_start)
