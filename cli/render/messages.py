"""Contract messages as JSON and as words for people."""

from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from cli.render.text import for_terminal, to_json
from mesh.messages import enum_word
from ytcaption.v1 import collection_pb2 as collection_pb
from ytcaption.v1 import job_pb2 as job_pb


def as_dict(message: Message) -> dict[str, Any]:
    """The message with the field names of the contract."""
    return MessageToDict(message, preserving_proto_field_name=True)


def message_json(message: Message) -> str:
    """The message as one line of JSON."""
    return to_json(as_dict(message))


def job_state(job: job_pb.Job) -> str:
    """The state in one word."""
    return enum_word(job_pb.JobState, job.state)


def job_title(job: job_pb.Job) -> str:
    """The title, or the source of a job that has none yet."""
    return job.media.title or job_source(job)


def job_source(job: job_pb.Job) -> str:
    """The address, or the name of the uploaded file."""
    return job.source.url or job.source.upload.file_name


def collection_state(collection: collection_pb.Collection) -> str:
    """The state in one word."""
    return enum_word(collection_pb.CollectionState, collection.state)


def member_state(state: "collection_pb.MemberState.ValueType") -> str:
    """The state in a word or two."""
    return enum_word(collection_pb.MemberState, state).replace("_", " ")


def member_title(member: collection_pb.Member) -> str:
    """The title, or the address of a member that has none yet; and its attempt after the first."""
    attempt = f" (attempt {member.attempt})" if member.attempt > 1 else ""
    return f"{member.title or member.source_url}{attempt}"


def failure_line(failure: job_pb.Failure) -> str:
    """The message for people with the reason for programs."""
    message = failure.message or "the job failed"
    return for_terminal(f"{message} ({failure.reason or 'INTERNAL'})")
