"""What a registered type is, and the Protocols that its engine fulfils."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mesh.messages import enum_word
from ytcaption.v1 import collector_service_pb2, executor_service_pb2, task_pb2

RoleId: TypeAlias = "task_pb2.TaskRole.ValueType"
COLLECTOR = task_pb2.TASK_ROLE_COLLECTOR
EXECUTOR = task_pb2.TASK_ROLE_EXECUTOR


def role_word(role: RoleId) -> str:
    """The role in names and subjects: `collector` or `executor`."""
    return enum_word(task_pb2.TaskRole, role)


class Collector(Protocol):
    """Finds recordings, documents and files of the types it serves."""

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        """What it serves, by type; MeshError if it does not answer."""
        ...

    def collect(
        self, request: collector_service_pb2.CollectRequest
    ) -> AsyncGenerator[collector_service_pb2.CollectResponse, None]:
        """What it finds, each with its key; MeshError if it fails, retryable or not."""
        ...


class Executor(Protocol):
    """Makes a result of what was collected and transcribed."""

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        """What it makes, by kind; MeshError if it does not answer."""
        ...

    def execute(
        self,
        start: executor_service_pb2.ExecuteStart,
        items: AsyncIterator[executor_service_pb2.ExecuteRequest],
    ) -> AsyncGenerator[executor_service_pb2.ExecuteResponse, None]:
        """Progress, files and the result, which is the last; MeshError if it fails."""
        ...


@dataclass(frozen=True, slots=True)
class Registered:
    """A type that collections may name, and the engine that serves it."""

    type: str
    role: RoleId
    transport: "task_pb2.TaskTransport.ValueType"
    max_in_flight: int
    """Tasks under way at once over all orchestrators."""
    timeout_seconds: float
    """An attempt ends after this."""
    description: task_pb2.TypeDescription
    collector: Collector | None = None
    executor: Executor | None = None
    """Both are None for a type behind a queue."""


class Types(Protocol):
    """The registered types, as they are now."""

    def find(self, role: RoleId, name: str) -> Registered:
        """The type of that name; InvalidRequestError (TYPE_UNKNOWN) that names the known ones."""
        ...

    def known(self, role: RoleId) -> Sequence[Registered]:
        """Every type of that role, by name."""
        ...

    async def changed(self) -> None:
        """Waits until a type is registered, replaced or taken back."""
        ...
