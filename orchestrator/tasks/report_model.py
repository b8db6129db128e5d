"""Maps collections of the contract to the model that reports are rendered from."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from google.protobuf.json_format import MessageToDict

from mesh.languages import described, tag_of
from mesh.messages import dataclass_from, enum_name, enum_word
from reports.model import (
    Collection,
    Document,
    Failure,
    Listing,
    Member,
    MemberState,
    ResultFile,
    State,
    Subtask,
)
from ytcaption.v1 import collection_pb2, job_pb2, task_pb2


def collection_of(
    collection: collection_pb2.Collection,
    members: Iterable[collection_pb2.Member],
    report_time: datetime,
    subtasks: Iterable[task_pb2.Subtask] = (),
    documents: Iterable[task_pb2.Document] = (),
) -> Collection:
    """A collection and what belongs to it as reports render them, without the texts."""
    language_out = tag_of(collection.options.language_out)
    return dataclass_from(
        Collection,
        collection,
        state=State(word_of(collection_pb2.CollectionState, collection.state)),
        report_time=report_time,
        members=tuple(map(member_of, members)),
        listings=tuple(
            dataclass_from(Listing, listing, failure=failure_in(listing))
            for listing in collection.listings
        ),
        subtasks=tuple(map(subtask_of, subtasks)),
        documents=tuple(map(document_of, documents)),
        language_out=language_out,
        language_out_name=described(language_out),
        **{name: time_of(collection, name) for name in ("create_time", "deadline", "end_time")},
    )


def member_of(member: collection_pb2.Member) -> Member:
    """A member as reports render it."""
    seconds = member.duration.ToTimedelta().total_seconds()
    return dataclass_from(
        Member,
        member,
        url=member.source_url,
        state=MemberState(word_of(collection_pb2.MemberState, member.state)),
        duration_seconds=seconds if member.HasField("duration") else None,
        end_time=time_of(member, "end_time"),
        failure=failure_in(member),
    )


def document_of(document: task_pb2.Document) -> Document:
    """A document as reports render it."""
    return dataclass_from(Document, document)


def subtask_of(subtask: task_pb2.Subtask) -> Subtask:
    """What a collector or an executor did, as reports render it."""
    return dataclass_from(
        Subtask,
        subtask,
        role=enum_word(task_pb2.TaskRole, subtask.role),
        state=MemberState(word_of(task_pb2.SubtaskState, subtask.state)),
        end_time=time_of(subtask, "end_time"),
        failure=failure_in(subtask),
        parameters=json.dumps(MessageToDict(subtask.parameters), ensure_ascii=False),
        result=json.dumps(MessageToDict(subtask.result), ensure_ascii=False)
        if subtask.HasField("result")
        else "",
        files=tuple(dataclass_from(ResultFile, one) for one in subtask.files),
    )


def failure_in(
    of: collection_pb2.Listing | collection_pb2.Member | task_pb2.Subtask,
) -> Failure | None:
    """Why something went wrong, as reports render it; None if it did not."""
    if not of.HasField("failure"):
        return None
    return dataclass_from(Failure, of.failure, stage=word_of(job_pb2.Stage, of.failure.stage))


def time_of(message: Any, name: str) -> datetime | None:
    """A time in UTC; None while the field is unset."""
    return getattr(message, name).ToDatetime(UTC) if message.HasField(name) else None


def word_of(enum: Any, number: int) -> str:
    """The value without its prefix, in upper case; "" if it is unspecified."""
    return enum_name(enum.DESCRIPTOR, number).upper() if number else ""
