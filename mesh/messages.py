"""Conversion between protobuf messages and plain JSON values or dataclasses, by field names.

Fields keep their names in the contract. A Duration is a number of seconds; an enum value is its
name without the prefix all values of the enum share, in lower case.
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

from google.protobuf.duration import from_timedelta, to_timedelta
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from mesh.errors import InvalidRequestError

DataT = TypeVar("DataT")
MessageT = TypeVar("MessageT", bound=Message)
Enum: TypeAlias = Any
Field: TypeAlias = Any
"""Descriptors: protobuf has two classes of each, and its types know only one."""


def enum_names(enum: Enum) -> tuple[str, ...]:
    """The names of every value but UNSPECIFIED, in the order of their numbers."""
    return tuple(enum_name(enum, value.number) for value in enum.values if value.number)


def enum_name(enum: Enum, number: int) -> str:
    """The plain name of a value; raises KeyError if the enum has no such number."""
    return str(enum.values_by_number[number].name).removeprefix(_prefix(enum)).lower()


def enum_word(enum: Any, number: int) -> str:
    """The plain name of a value of a generated enum; an unknown value as its number."""
    known = number in enum.DESCRIPTOR.values_by_number
    return enum_name(enum.DESCRIPTOR, number) if known else str(number)


def enum_number(enum: Enum, name: str) -> int:
    """The number of a value; raises KeyError if the enum has no such name."""
    return int(enum.values_by_name[f"{_prefix(enum)}{name.upper()}"].number)


def _prefix(enum: Enum) -> str:
    return str(enum.values_by_number[0].name).removesuffix("UNSPECIFIED")


def fill(message: Message, values: Mapping[str, Any]) -> None:
    """Sets fields by name; None and a group without values leave a field unset."""
    for name, value in values.items():
        if value is not None:
            _set(message, message.DESCRIPTOR.fields_by_name[name], value)


def _set(message: Message, field: Field, value: Any) -> None:
    if field.is_repeated:
        getattr(message, field.name).extend(value)
    elif field.message_type is None:
        number = enum_number(field.enum_type, value) if field.enum_type else value
        setattr(message, field.name, number)
    elif field.message_type.full_name == Duration.DESCRIPTOR.full_name:
        getattr(message, field.name).CopyFrom(from_timedelta(timedelta(seconds=value)))
    else:
        part = type(getattr(message, field.name))()
        fill(part, value)
        if part.ListFields():
            getattr(message, field.name).CopyFrom(part)


def plain(message: Message) -> dict[str, Any]:
    """The fields that are set, by name; an UNSPECIFIED enum value counts as unset."""
    return {
        field.name: _plain(field, value)
        for field, value in message.ListFields()
        if value or not field.enum_type
    }


def _plain(field: Field, value: Any) -> Any:
    if isinstance(value, Duration):
        return to_timedelta(value).total_seconds()
    if isinstance(value, Message):
        return plain(value)
    if field.enum_type:
        return enum_name(field.enum_type, value)
    return list(value) if field.is_repeated else value


def struct_of(values: Mapping[str, Any]) -> Struct:
    """A JSON object as a message; InvalidRequestError for one that no message can hold."""
    try:
        return ParseDict(dict(values), Struct())
    except (ParseError, ValueError, RecursionError) as error:
        raise InvalidRequestError(
            "an object cannot be read: only JSON values, nested not too deep"
        ) from error


def copy_shared(source: Message, target: Message) -> None:
    """Copies the fields that both messages have under one name and with one type."""
    for field, value in source.ListFields():
        if field.name not in target.DESCRIPTOR.fields_by_name:
            continue
        if field.message_type or field.is_repeated:
            getattr(target, field.name).MergeFrom(value)
        else:
            setattr(target, field.name, value)


def message_from(kind: type[MessageT], data: Any, **others: Any) -> MessageT:
    """A message with the fields of a dataclass, and the others; None leaves a field unset."""
    values = {field.name: getattr(data, field.name) for field in fields(data)}
    return kind(**{**values, **others})


def dataclass_from(kind: type[DataT], message: Message, **others: Any) -> DataT:
    """A dataclass with the fields of a message, and the others; an unset field has its default.

    A repeated field is a tuple.
    """
    descriptors = message.DESCRIPTOR.fields_by_name
    for name in {field.name for field in fields(kind)} - set(others):  # type: ignore[arg-type]
        if not descriptors[name].has_presence or message.HasField(name):
            others[name] = _for_dataclass(descriptors[name], getattr(message, name))
    return kind(**others)


def _for_dataclass(field: Field, value: Any) -> Any:
    if isinstance(value, Duration):
        return to_timedelta(value)
    return tuple(value) if field.is_repeated else value
