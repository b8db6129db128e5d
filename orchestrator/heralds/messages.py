"""Between our JSON models and the contracts, field by field under one name."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias

from google.protobuf.duration import from_timedelta, to_timedelta
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from orchestrator.heralds.parameters import PRIORITIES, Options, Parameters, Strict
from ytcaption.v1 import collection_service_pb2, event_pb2, job_pb2

Field: TypeAlias = Any
"""A FieldDescriptor; there are two classes of them, and the types know only one."""
DURATION = Duration.DESCRIPTOR.full_name


def request_of(given: Parameters) -> collection_service_pb2.CreateCollectionRequest:
    """What the parameters ask for; whose sources nobody has named yet."""
    request = collection_service_pb2.CreateCollectionRequest()
    _fill(request, given, lambda name: name not in Options.model_fields)
    _fill(request.options, given, lambda name: name in Options.model_fields)
    return request


def _fill(message: Message, given: Strict, wanted: Callable[[str], bool] = bool) -> None:
    for name in filter(wanted, type(given).model_fields):
        value = getattr(given, name)
        if value is not None:
            _set(message, message.DESCRIPTOR.fields_by_name[name], value)


def _set(message: Message, field: Field, value: Any) -> None:
    if field.message_type is not None and field.message_type.full_name == DURATION:
        getattr(message, field.name).CopyFrom(from_timedelta(timedelta(seconds=value)))
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
        _fill(getattr(message, field.name), value)
    elif field.enum_type is not None:
        word = PRIORITIES.get(value, value).upper()
        values = field.enum_type.values_by_name
        setattr(message, field.name, values[f"{_prefix(field)}{word}"].number)
    else:
        setattr(message, field.name, value)


def options_of(options: job_pb2.JobOptions) -> Options:
    """The options as our JSON tells them."""
    return Options.model_validate(_public(_plain(options)))


def parameters_of(start: event_pb2.StartCollection) -> Parameters:
    """What a collection was told, as our JSON tells it; without what it is made of."""
    told = {**_plain(start), **_plain(start.options)}
    for elsewhere in ("sources", "addresses", "options"):
        told.pop(elsewhere, None)
    return Parameters.model_validate(_public(told))


def _public(told: dict[str, Any]) -> dict[str, Any]:
    """Without what may hold a password, or is between the sender and us: everyone may listen."""
    for private in ("webhook_url", "request_id"):
        told.pop(private, None)
    told.get("download", {}).pop("proxy", None)
    return told


def _plain(message: Message) -> dict[str, Any]:
    return {field.name: _value(field, value) for field, value in message.ListFields()}


def _value(field: Field, value: Any) -> Any:
    if isinstance(value, Duration):
        return to_timedelta(value).total_seconds()
    if isinstance(value, Message):
        return _plain(value)
    if field.enum_type is not None:
        return word_of(field, value)
    return list(value) if field.is_repeated else value


def word_of(field: Field, number: int) -> str:
    """An enum's value without what all of them begin with, in small letters."""
    name = field.enum_type.values_by_number[number].name
    return str(name).removeprefix(_prefix(field)).lower()


def _prefix(field: Field) -> str:
    first = field.enum_type.values[0].name
    return str(first).removesuffix("UNSPECIFIED")
