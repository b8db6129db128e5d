"""Settings every service has."""

import os
from collections.abc import Mapping
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

LogFormat = Literal["json", "console", "ecs"]


class ServiceSettings(BaseSettings):
    """Read once, in __main__, from variables with the service's own prefix; then passed down."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    listen: str = "127.0.0.1:0"
    """Address of the gRPC server."""

    metrics_listen: str = ""
    """Address of the Prometheus endpoint; empty turns it off."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Least severe line that is logged."""

    log_format: LogFormat = "json"
    """One JSON object a line, colours for a person, or Elastic Common Schema."""

    grace_seconds: float = Field(default=10, ge=0)
    """How long running calls may take to finish after SIGTERM."""

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


def default_work_dir(service: str) -> Path:
    """Scratch folder of a service; in the temporary folder another user could make it first."""
    return user_cache_path("ytcaption", appauthor=False) / "work" / service


def scaled(text: str, factor: float) -> float | str:
    """A number in another unit; other text is returned as it is, for validation to refuse."""
    try:
        return float(text) * factor
    except ValueError:
        return text
