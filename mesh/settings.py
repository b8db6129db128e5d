"""What an operator can change about any service."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

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
    """How long calls under way may finish after SIGTERM."""
