"""Collectors and executors: what collections may name."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Body, Path
from google.protobuf.duration import from_timedelta
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from gateway.client import call
from gateway.deps import Deps
from gateway.http.problems import RefusedError, problem_responses
from gateway.presenters.jobs import seconds
from gateway.schemas.types import (
    RegisteredType,
    RegisteredTypes,
    Registration,
    Role,
    TypeRemoved,
)
from mesh.messages import enum_number, enum_word
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import task_pb2

router = APIRouter(prefix="/admin/types", tags=["admin"])


@router.get("", responses=problem_responses())
async def list_types(deps: Deps) -> RegisteredTypes:
    """Lists the collectors and executors that collections may name."""
    found = await call(deps.orchestrator.admin.ListTypes, pb.ListTypesRequest())
    return RegisteredTypes(types=[_shown(one) for one in found.types])


@router.post("", responses=problem_responses())
async def register_type(deps: Deps, given: Annotated[Registration, Body()]) -> RegisteredType:
    """Registers a collector or an executor, or replaces its registration.

    A service has to answer now.
    """
    request = pb.RegisterTypeRequest(
        type=given.type,
        role=_role(given.role),
        transport=task_pb2.TaskTransport.Value(f"TASK_TRANSPORT_{given.transport.upper()}"),
        addresses=given.addresses,
        max_in_flight=given.max_in_flight,
    )
    if given.timeout_seconds is not None:
        request.timeout.CopyFrom(from_timedelta(timedelta(seconds=given.timeout_seconds)))
    request.description.summary = given.summary
    try:
        ParseDict(given.parameters_schema or {}, request.description.parameters_schema)
    except (ParseError, RecursionError, UnicodeEncodeError) as error:
        raise RefusedError(422, "it is nested too deeply", field="parameters_schema") from error
    return _shown((await call(deps.orchestrator.admin.RegisterType, request)).type)


@router.delete("/{role}/{type}", responses=problem_responses())
async def unregister_type(
    deps: Deps, role: Role, type: Annotated[str, Path(max_length=40)]
) -> TypeRemoved:
    """Takes a registration back; tasks of it that have not ended fail."""
    request = pb.UnregisterTypeRequest(type=type, role=_role(role))
    done = await call(deps.orchestrator.admin.UnregisterType, request)
    return TypeRemoved(removed=done.removed)


def _role(word: str) -> "task_pb2.TaskRole.ValueType":
    return enum_number(task_pb2.TaskRole.DESCRIPTOR, word)  # type: ignore[return-value]


def _shown(found: task_pb2.RegisteredType) -> RegisteredType:
    return RegisteredType.of(
        found,
        role=enum_word(task_pb2.TaskRole, found.role),
        transport=enum_word(task_pb2.TaskTransport, found.transport),
        timeout_seconds=seconds(found.timeout),
        summary=found.description.summary,
        parameters_schema=MessageToDict(found.description.parameters_schema),
    )
