"""Checks what a request asks of collectors and executors, and fills in its defaults."""

from typing import Protocol

from mesh.errors import InvalidRequestError
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, Registered, Types
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import event_pb2, task_pb2

MAX_SPECS = 20
MAX_PARAMETERS_BYTES = 64 * 1024
UNSPECIFIED = task_pb2.EXECUTOR_SCOPE_UNSPECIFIED
SCOPES = (task_pb2.EXECUTOR_SCOPE_ITEM, task_pb2.EXECUTOR_SCOPE_COLLECTION)


class CheckSpecs(Protocol):
    """Checks the specs of a request; InvalidRequestError for one that cannot be served."""

    def __call__(
        self, request: pb.CreateCollectionRequest, start: event_pb2.StartCollection
    ) -> None:
        """Puts the checked specs into the collection's first event."""
        ...


def check_specs(
    types: Types, request: pb.CreateCollectionRequest, start: event_pb2.StartCollection
) -> None:
    """Types are known, parameters are small, and every executor has a scope that it can get."""
    for name, specs in (("source_specs", request.source_specs), ("executors", request.executors)):
        if len(specs) > MAX_SPECS:
            raise InvalidRequestError(f"at most {MAX_SPECS} {name}")
        if any(one.parameters.ByteSize() > MAX_PARAMETERS_BYTES for one in specs):
            raise InvalidRequestError(
                f"parameters of one of {name} have more than {MAX_PARAMETERS_BYTES} bytes"
            )
    for source in request.source_specs:
        types.find(COLLECTOR, source.type)
    for executor in start.executors:
        executor.scope = _scope(types.find(EXECUTOR, executor.kind), executor)


def _scope(
    registered: Registered, spec: task_pb2.ExecutorSpec
) -> "task_pb2.ExecutorScope.ValueType":
    preferred = registered.description.preferred_scope or task_pb2.EXECUTOR_SCOPE_COLLECTION
    if spec.scope == UNSPECIFIED:
        return preferred
    allowed = set(registered.description.scopes) or {preferred}
    if spec.scope not in SCOPES or spec.scope not in allowed:
        names = ", ".join(sorted(map(task_pb2.ExecutorScope.Name, allowed)))
        raise InvalidRequestError(f"the executor {spec.kind} cannot get that scope, only {names}")
    return spec.scope
