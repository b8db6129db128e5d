"""Converts a stored collection and its members into the model that reports render."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from mesh.languages import described, tag_of
from mesh.messages import enum_name
from reports.model import Collection, Failure, Listing, Member, MemberState, State
from ytcaption.v1 import collection_pb2

T = TypeVar("T")


def report_collection(
    collection: collection_pb2.Collection,
    members: Sequence[collection_pb2.Member],
    report_time: datetime,
) -> Collection:
    """The collection and its members, without their texts."""
    language_out = tag_of(collection.options.language_out)
    return _converted(
        Collection,
        collection,
        state=State(_enum(collection, "state")),
        report_time=report_time,
        members=tuple(map(_member, members)),
        listings=tuple(_converted(Listing, listing) for listing in collection.listings),
        language_out=language_out,
        language_out_name=described(language_out),
    )


def _member(member: collection_pb2.Member) -> Member:
    seconds = member.duration.ToTimedelta().total_seconds()
    return _converted(
        Member,
        member,
        url=member.source_url,
        state=MemberState(_enum(member, "state")),
        duration_seconds=seconds if member.HasField("duration") else None,
    )


def _converted(model: type[T], message: Message, **others: Any) -> T:
    """The model with these values, and the fields the message has under the same name."""
    names = {field.name for field in fields(model)} - set(others)  # type: ignore[arg-type]
    shared = names & set(message.DESCRIPTOR.fields_by_name)
    return model(**{name: _value(message, name) for name in shared}, **others)


def _value(message: Message, name: str) -> Any:
    field, value = message.DESCRIPTOR.fields_by_name[name], getattr(message, name)
    if field.is_repeated:
        return tuple(value)
    if field.enum_type:
        return _enum(message, name)
    if not field.message_type:
        return value
    if not message.HasField(name):
        return None
    return value.ToDatetime(UTC) if isinstance(value, Timestamp) else _converted(Failure, value)


def _enum(message: Message, name: str) -> str:
    """The value without its prefix, in upper case; "" if it is unspecified."""
    number = getattr(message, name)
    enum = message.DESCRIPTOR.fields_by_name[name].enum_type
    return enum_name(enum, number).upper() if number else ""
