"""Checks what a request asks of collectors and executors, and fills in its defaults."""

from typing import Protocol

from mesh.errors import InvalidRequestError
from orchestrator.tasks.types import Types
from orchestrator.tasks.validation import check_executor, check_source, scope_of
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import event_pb2

MAX_SPECS = 20


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
    """Types are known, parameters fit their schemas, and every executor has a scope it can get."""
    for name, specs in (("source_specs", request.source_specs), ("executors", request.executors)):
        if len(specs) > MAX_SPECS:
            raise InvalidRequestError(f"at most {MAX_SPECS} {name}")
    for source in request.source_specs:
        check_source(types, source)
    for executor in start.executors:
        executor.scope = scope_of(check_executor(types, executor), executor)
