"""What a request asks of collectors and executors is checked before anything is accepted."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.tasks.declared import unknown_type
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, Registered, RoleId
from orchestrator.tasks.validation import check_executor, check_source, scope_of
from tests.orchestrator.tasks.services import SCHEMA, struct
from ytcaption.v1 import task_pb2

ITEM, COLLECTION = task_pb2.EXECUTOR_SCOPE_ITEM, task_pb2.EXECUTOR_SCOPE_COLLECTION
NO_SCOPE = task_pb2.EXECUTOR_SCOPE_UNSPECIFIED


class Some:
    """Registered types; fulfils `Types`."""

    def __init__(self, *registered: Registered) -> None:
        self._registered = registered

    def find(self, role: RoleId, name: str) -> Registered:
        for one in self.known(role):
            if one.type == name:
                return one
        raise unknown_type(role, name, [one.type for one in self.known(role)])

    def known(self, role: RoleId) -> Sequence[Registered]:
        return [one for one in self._registered if one.role == role]

    async def changed(self) -> None: ...


def registered(name: str, role: RoleId = COLLECTOR, **said: Any) -> Registered:
    schema = struct(said.pop("schema", {}))
    description = task_pb2.TypeDescription(parameters_schema=schema, **said)
    return Registered(name, role, task_pb2.TASK_TRANSPORT_QUEUE, 1, 1, description)


TYPES = Some(
    registered("blog", schema=SCHEMA),
    registered("qualquer"),
    registered("lista", schema={"properties": {"a": {"items": {"type": "integer"}}}}),
    registered("padrao", schema={"properties": {"a": {"pattern": "^(a+)+$"}}}),
    registered("palavras", EXECUTOR, preferred_scope=ITEM),
    registered("calado", EXECUTOR),
    registered("relatorio", EXECUTOR, preferred_scope=COLLECTION),
    registered("ambos", EXECUTOR, preferred_scope=COLLECTION, scopes=[ITEM]),
)


def refused(name: str, parameters: dict[str, Any]) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        check_source(TYPES, task_pb2.SourceSpec(type=name, parameters=struct(parameters)))
    return caught.value


def test_parameters_that_fit_are_accepted() -> None:
    given = struct({"endereco": "http://a.test", "limite": 3})

    assert check_source(TYPES, task_pb2.SourceSpec(type="blog", parameters=given)).type == "blog"


def test_a_type_without_a_schema_takes_any_object() -> None:
    given = struct({"a": [1, {"b": None}]})

    check_source(TYPES, task_pb2.SourceSpec(type="qualquer", parameters=given))
    check_source(TYPES, task_pb2.SourceSpec(type="qualquer"))


def test_an_unknown_type_is_refused_with_the_known_ones() -> None:
    error = refused("vimeo", {})

    assert error.reason == Reason.TYPE_UNKNOWN
    assert "blog, lista, padrao, qualquer" in str(error)


@pytest.mark.parametrize(
    ("name", "given", "place"),
    [
        ("blog", {}, "parameters: "),
        ("blog", {"endereco": 5}, "parameters.endereco: "),
        ("blog", {"endereco": "x", "limite": 0}, "parameters.limite: "),
        ("blog", {"endereco": "x", "limite": 1.5}, "parameters.limite: "),
        ("blog", {"endereco": "x", "outro": 1}, "outro"),
        ("lista", {"a": [1, 2, "x"]}, "parameters.a.2: "),
    ],
)
def test_parameters_that_do_not_fit_are_refused_with_their_place(
    name: str, given: dict[str, Any], place: str
) -> None:
    error = refused(name, given)

    assert error.reason == Reason.PARAMETERS_INVALID
    assert place in str(error)


def test_parameters_are_bounded_and_finite() -> None:
    assert refused("qualquer", {"a": "x" * 66_000}).reason == Reason.PARAMETERS_INVALID
    assert refused("qualquer", {"a": math.nan}).reason == Reason.PARAMETERS_INVALID


def test_a_pattern_of_a_stranger_takes_no_time() -> None:
    # With backtracking this would take longer than any test may.
    assert refused("padrao", {"a": "a" * 5000 + "!"}).reason == Reason.PARAMETERS_INVALID


@pytest.mark.parametrize(
    ("kind", "asked", "got"),
    [
        ("palavras", NO_SCOPE, ITEM),
        ("calado", NO_SCOPE, COLLECTION),
        ("relatorio", NO_SCOPE, COLLECTION),
        ("ambos", NO_SCOPE, COLLECTION),
        ("ambos", ITEM, ITEM),
    ],
)
def test_an_executor_gets_what_is_asked_for_or_what_it_prefers(
    kind: str, asked: Any, got: Any
) -> None:
    spec = task_pb2.ExecutorSpec(kind=kind, scope=asked)

    assert scope_of(check_executor(TYPES, spec), spec) == got


@pytest.mark.parametrize(("kind", "asked"), [("palavras", COLLECTION), ("relatorio", ITEM)])
def test_an_executor_is_not_given_what_it_cannot_take(kind: str, asked: Any) -> None:
    with pytest.raises(InvalidRequestError, match="scope must be") as caught:
        check_executor(TYPES, task_pb2.ExecutorSpec(kind=kind, scope=asked, parameters=Struct()))

    assert caught.value.reason == Reason.PARAMETERS_INVALID
