"""Checks what a request asks of collectors and executors before anything is accepted."""

import json
from functools import lru_cache
from typing import Any, Protocol

import jsonschema_rs
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, Registered, Types
from ytcaption.v1 import task_pb2

MAX_PARAMETERS_BYTES = 64 * 1024
MAX_SCHEMA_BYTES = 64 * 1024
MAX_WORDS = 300
"""Of what is wrong: it may repeat the parameters."""


class Specification(Protocol):
    """A SourceSpec or an ExecutorSpec."""

    @property
    def parameters(self) -> Struct:
        """As the schema of the type says."""
        ...


def check_source(types: Types, spec: task_pb2.SourceSpec) -> Registered:
    """The registered collector of a source; raises if there is none, or its parameters do not fit.

    TYPE_UNKNOWN names the known types; PARAMETERS_INVALID names the place in the parameters.
    """
    found = types.find(COLLECTOR, spec.type)
    check_parameters(found, spec)
    return found


def check_executor(types: Types, spec: task_pb2.ExecutorSpec) -> Registered:
    """The registered executor of a specification; raises as `check_source` does.

    Also if it cannot get the scope that the specification asks for.
    """
    found = types.find(EXECUTOR, spec.kind)
    check_parameters(found, spec)
    scope_of(found, spec)
    return found


def scope_of(
    executor: Registered, spec: task_pb2.ExecutorSpec
) -> "task_pb2.ExecutorScope.ValueType":
    """What one call of the executor gets: what is asked for, else what the kind prefers."""
    said = executor.description
    preferred = said.preferred_scope or task_pb2.EXECUTOR_SCOPE_COLLECTION
    possible = {preferred, *said.scopes}
    if spec.scope and spec.scope not in possible:
        names = sorted(
            task_pb2.ExecutorScope.Name(one).removeprefix("EXECUTOR_SCOPE_") for one in possible
        )
        raise _invalid(f"executor {executor.type}: scope must be {' or '.join(names)}")
    return spec.scope or preferred


def check_parameters(registered: Registered, spec: Specification) -> None:
    """Raises unless the parameters fit the schema of the type; a type without one takes any."""
    try:
        given = MessageToDict(spec.parameters)
    except ValueError:  # NaN and infinity, which JSON does not have
        raise _invalid(f"{registered.type}: a number is not finite") from None
    if len(json.dumps(given, ensure_ascii=False).encode(errors="replace")) > MAX_PARAMETERS_BYTES:
        raise _invalid(f"{registered.type}: parameters have more than {MAX_PARAMETERS_BYTES} bytes")
    error = next(_validator_of(registered.description.parameters_schema).iter_errors(given), None)
    if error is not None:
        where = ".".join(["parameters", *map(str, error.instance_path)])
        raise _invalid(f"{registered.type}: {where}: {error.message[:MAX_WORDS]}")


def check_schema(schema: Struct) -> None:
    """Raises unless this is a JSON Schema of draft 2020-12 that needs nothing from elsewhere."""
    if schema.ByteSize() > MAX_SCHEMA_BYTES:
        raise InvalidRequestError(
            f"parameters_schema has more than {MAX_SCHEMA_BYTES} bytes",
            reason=Reason.SCHEMA_INVALID,
        )
    _validator_of(schema)


def _validator_of(schema: Struct) -> jsonschema_rs.Draft202012Validator:
    return _compiled(schema.SerializeToString(deterministic=True))


@lru_cache(maxsize=400)
def _compiled(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    try:
        content: dict[str, Any] = MessageToDict(Struct.FromString(schema))
        return jsonschema_rs.Draft202012Validator(
            content,
            validate_formats=True,
            # Strangers write schemas: nothing is fetched for one, and no pattern backtracks.
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        why = getattr(error, "message", None) or str(error)
        raise InvalidRequestError(
            f"parameters_schema is not a usable JSON Schema: {why[:MAX_WORDS]}",
            reason=Reason.SCHEMA_INVALID,
        ) from error


def _invalid(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, reason=Reason.PARAMETERS_INVALID)
