"""Requests and responses about collectors and executors."""

from typing import Any, Literal

from pydantic import Field

from gateway.schemas.jobs import ResponseModel
from gateway.schemas.options import Strict

Role = Literal["collector", "executor"]
MAX_ADDRESSES = 16


class Registration(Strict):
    """A collector or an executor to be registered."""

    type: str = Field(max_length=40, description="Letters, digits, `-` and `_`.")
    role: Role
    transport: Literal["grpc", "queue"] = "grpc"
    addresses: list[str] = Field(
        default=[],
        max_length=MAX_ADDRESSES,
        description="Replicas (host:port) of a service; none for a queue.",
    )
    max_in_flight: int = Field(
        default=0, ge=0, le=1000, description="Tasks under way at once; 0: as the mesh is set."
    )
    timeout_seconds: float | None = Field(
        default=None, gt=0, le=86_400, description="An attempt ends after this long."
    )
    summary: str = Field(
        default="", max_length=500, description="What it does, for a queue; a service says so."
    )
    parameters_schema: dict[str, Any] | None = Field(
        default=None, description="JSON Schema of its parameters, for a queue."
    )


class RegisteredType(ResponseModel):
    """A collector or an executor that collections may name."""

    type: str
    role: str
    transport: str = Field(description="`built_in`, `grpc` or `queue`.")
    addresses: list[str]
    max_in_flight: int
    timeout_seconds: float
    summary: str = Field(description="Untrusted text.")
    parameters_schema: dict[str, Any]
    healthy: bool
    queued: int = Field(description="Tasks that wait.")
    running: int = Field(description="Tasks under way.")
    removable: bool = Field(description="Whether it was registered at run time.")


class RegisteredTypes(ResponseModel):
    """Every collector and executor, by role and name."""

    types: list[RegisteredType]


class TypeRemoved(ResponseModel):
    """Whether there was such a registration."""

    removed: bool
