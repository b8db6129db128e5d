"""Settings every service has."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_path
from pydantic import Field
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from mesh.addresses import is_loopback, split
from mesh.errors import InvalidRequestError
from mesh.tls import Tls

LogFormat = Literal["json", "console", "ecs"]


class ServiceSettings(BaseSettings):
    """Read once, in __main__, from variables with the service's own prefix; then passed down."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    listen: str = "127.0.0.1:0"
    """Address of the gRPC server."""

    metrics_listen: str = ""
    """Address of the Prometheus endpoint; empty turns it off."""

    metrics_token_file: str = ""
    """File with the token that readers of the metrics must send; empty: they need none."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Least severe line that is logged."""

    log_format: LogFormat = "json"
    """One JSON object a line, colours for a person, or Elastic Common Schema."""

    grace_seconds: float = Field(default=10, ge=0)
    """How long running calls may take to finish after SIGTERM."""

    tls_certificate: str = ""
    """PEM file of the service's certificate and its chain, for callers and for called services;
    the service then listens with TLS."""

    tls_key: str = ""
    """PEM file of its private key."""

    tls_ca: str = ""
    """PEM file of the authorities of the other certificates, or `system`; the service then calls
    others with TLS."""

    tls_peers: str = ""
    """Names of callers, separated by commas, of which one is in their certificates; `*`: any name.
    Empty: callers need no certificate."""

    insecure_listen: bool = False
    """Listen beyond loopback without TLS or a login: who reaches the port may do everything."""

    @property
    def tls(self) -> Tls:
        """The files of every wire, and the accepted callers."""
        return Tls(self.tls_certificate, self.tls_key, self.tls_ca, self.tls_peers)

    @property
    def knows_callers(self) -> bool:
        """Whether callers must show who they are, where they decide what is done for them."""
        return True

    def check(self) -> None:
        """Raises an error of one line, which names the setting, if it is not safe to start."""
        prefix = self.model_config.get("env_prefix", "")
        self.tls.check(prefix)
        if self.insecure_listen:
            return
        for port, missing, remedy in self.exposures():
            raise InvalidRequestError(
                f"{port} without {missing} is refused: {remedy}, or {prefix}INSECURE_LISTEN=true"
            )

    def exposures(self) -> Iterator[tuple[str, str, str]]:
        """Each port beyond loopback without a protection: the setting, what is missing, how to get
        it.
        """
        prefix = self.model_config.get("env_prefix", "")
        for name in ("listen", "metrics_listen"):
            address = getattr(self, name)
            for missing, remedy, present in PROTECTIONS[name]:
                if address and not is_loopback(split(address)[0]) and not present(self):
                    yield f"{prefix}{name.upper()}={address}", missing, remedy.format(prefix)

    @classmethod
    def from_old_names(cls, environ: Mapping[str, str]) -> dict[str, Any]:
        """Values from the environment variables of the earlier system; ours take precedence."""
        return {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments take precedence over our variables, and those over the earlier system's."""
        present = {name: value for name, value in os.environ.items() if value}
        old = InitSettingsSource(settings_cls, cls.from_old_names(present))
        return init_settings, env_settings, old


class StageSettings(ServiceSettings):
    """Settings every stage has: a service that the orchestrator alone calls."""

    token_file: str = ""
    """File with the token that callers must send; empty: everyone who reaches the port may call."""


Protection = tuple[str, str, Callable[[ServiceSettings], bool]]
_TLS: Protection = (
    "TLS",
    "set {0}TLS_CERTIFICATE and {0}TLS_KEY",
    lambda settings: bool(settings.tls.certificate),
)
_LOGIN: Protection = (
    "a login",
    "set {0}LOGIN=true, or {0}TLS_PEERS",
    lambda settings: settings.knows_callers,
)
PROTECTIONS: dict[str, tuple[Protection, ...]] = {
    "listen": (_TLS, _LOGIN),
    "metrics_listen": (_TLS,),
}
"""What a port beyond loopback needs: its name, how to get it, whether it is there."""


def default_work_dir(service: str) -> Path:
    """Scratch folder of a service; in the temporary folder another user could make it first."""
    return user_cache_path("ytcaption", appauthor=False) / "work" / service


def old_address(environ: Mapping[str, str], default: str) -> dict[str, str]:
    """`listen` by HOST and PORT of the earlier system, if one of them is set."""
    if "HOST" not in environ and "PORT" not in environ:
        return {}
    known_host, known_port = split(default)
    host = environ.get("HOST", known_host)
    host = f"[{host}]" if ":" in host else host
    return {"listen": f"{host}:{environ.get('PORT', known_port)}"}


def scaled(text: str, factor: float) -> float | str:
    """A number in another unit; other text is returned as it is, for validation to refuse."""
    try:
        return float(text) * factor
    except ValueError:
        return text
