"""What a registration may say: names, addresses and numbers; types that the settings name."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from google.protobuf.duration import from_timedelta

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from mesh.type_names import check_addresses, check_name, listed_types
from orchestrator.jobs.validation import check_duration
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, RoleId, role_word
from orchestrator.tasks.validation import check_schema
from ytcaption.v1 import admin_service_pb2, task_pb2

GRPC, QUEUE = task_pb2.TASK_TRANSPORT_GRPC, task_pb2.TASK_TRANSPORT_QUEUE
MAX_IN_FLIGHT = 1000
MAX_SECONDS = 86_400.0
MAX_SUMMARY = 500


def check_role(role: RoleId) -> RoleId:
    """The role of a request; raises if it is none."""
    if role not in (COLLECTOR, EXECUTOR):
        raise InvalidRequestError("role must be COLLECTOR or EXECUTOR")
    return role


def declared(request: admin_service_pb2.RegisterTypeRequest) -> task_pb2.RegisteredType:
    """The registration that a request asks for, as it is stored; raises if it can never work."""
    check_role(request.role)
    check_name(request.type)
    if request.transport not in (GRPC, QUEUE):
        raise InvalidRequestError("transport must be GRPC or QUEUE")
    if request.transport == QUEUE and request.addresses:
        raise InvalidRequestError("a type behind a queue has no addresses")
    if not 0 <= request.max_in_flight <= MAX_IN_FLIGHT:
        raise InvalidRequestError(f"max_in_flight must be from 0 to {MAX_IN_FLIGHT}")
    found = task_pb2.RegisteredType(
        type=request.type,
        role=request.role,
        transport=request.transport,
        addresses=request.addresses,
        max_in_flight=request.max_in_flight,
    )
    if request.transport == GRPC:
        check_addresses(found.addresses)
    else:
        check_description(request.description)
        found.description.CopyFrom(request.description)
    if request.HasField("timeout"):
        found.timeout.CopyFrom(from_timedelta(_checked_timeout(request)))
    return found


def check_description(description: task_pb2.TypeDescription) -> None:
    """Raises if a type says something about itself that cannot be used."""
    if len(description.summary) > MAX_SUMMARY:
        raise InvalidRequestError(f"summary has more than {MAX_SUMMARY} characters")
    check_schema(description.parameters_schema)


def settled_types(collectors: str, executors: str) -> Iterator[task_pb2.RegisteredType]:
    """The types that the settings name; raises if one of them is not usable."""
    for role, text in ((COLLECTOR, collectors), (EXECUTOR, executors)):
        for name, addresses in listed_types(text).items():
            transport = GRPC if addresses else QUEUE
            yield task_pb2.RegisteredType(
                type=name, role=role, transport=transport, addresses=addresses
            )


def unknown_type(role: RoleId, name: str, known: Sequence[str]) -> InvalidRequestError:
    """The error for a name that is not registered; it names those that are."""
    word = role_word(role)
    there = f"there are: {', '.join(sorted(known))}" if known else "there is no other"
    return InvalidRequestError(
        f"there is no {word} {name[:100]!r}; {there}", reason=Reason.TYPE_UNKNOWN
    )


def _checked_timeout(request: admin_service_pb2.RegisterTypeRequest) -> timedelta:
    timeout = check_duration(request.timeout, "timeout")
    if not 0 < timeout.total_seconds() <= MAX_SECONDS:
        raise InvalidRequestError(f"timeout must be more than 0 and at most {MAX_SECONDS:g} s")
    return timeout
