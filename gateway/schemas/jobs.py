"""Responses about jobs; field names and types of the earlier system are kept (docs/http.md)."""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from google.protobuf.message import Message
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from gateway.schemas.options import Options
from mesh.messages import enum_names
from ytcaption.v1 import job_pb2

JobStatus = Literal[
    "queued", "downloading", "normalizing", "transcribing", "completed", "failed", "cancelled"
]
JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
StageStatus = Literal["pending", "running", "completed", "failed", "timed_out", "skipped"]
Percent = Field(ge=0, le=100)
Time = Annotated[
    datetime,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {
                    "type": "string",
                    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?$",
                    "description": "With `naive_timestamps`.",
                },
            ]
        }
    ),
]
"""A time; a client may ask for it without an offset."""


class ResponseModel(BaseModel):
    """Base of all response models."""

    model_config = ConfigDict(protected_namespaces=())

    @classmethod
    def of(cls, message: Message, /, **given: Any) -> Self:
        """Builds the model of `given` and the message's fields of the same names, unvalidated.

        A field that is unset or empty becomes None where the model allows it.
        """
        shared = {
            name: convert(message)
            for name, convert in _shared_fields(cls, message.DESCRIPTOR).items()
            if name not in given
        }
        return cls.model_construct(**shared, **given)


@cache
def _shared_fields(model: type[BaseModel], descriptor: Any) -> dict[str, Callable[[Message], Any]]:
    """Readers of the fields both have; messages and enums have no common form in JSON."""
    return {
        name: _reader(field, type(None) in get_args(info.annotation))
        for name, info in model.model_fields.items()
        if (field := descriptor.fields_by_name.get(name))
        and not (field.message_type or field.enum_type)
    }


def _reader(field: Any, nullable: bool) -> Callable[[Message], Any]:
    read = attrgetter(field.name)
    if field.is_repeated:
        return lambda message: list(read(message))
    if nullable and field.has_presence:
        return lambda message: read(message) if message.HasField(field.name) else None
    return (lambda message: read(message) or None) if nullable else read


class Failure(ResponseModel):
    """Why a job failed."""

    reason: str
    message: str
    retryable: bool
    stage: str | None
    attempt: int


class ModelPreparation(ResponseModel):
    """What a model still needs before it can transcribe."""

    model: str
    phase: str
    done_bytes: int | None
    total_bytes: int | None
    text: str


class Stage(ResponseModel):
    """Progress of one stage; `done` and `total` are in `unit`."""

    status: StageStatus
    job_id: str | None = Field(description="Of the stage alone; null before it has started.")
    progress: float = Percent
    started_at: Time | None
    completed_at: Time | None
    done: float | None
    total: float | None
    unit: Literal["bytes", "seconds"]
    bytes_per_second: float | None
    eta_seconds: float | None
    preparing: ModelPreparation | None


class Stages(ResponseModel):
    """The stages; they overlap in time."""


STAGE_NAMES = enum_names(job_pb2.Stage.DESCRIPTOR)
if not TYPE_CHECKING:
    Stages = create_model(
        "Stages",
        __base__=Stages,
        __doc__=Stages.__doc__,
        **dict.fromkeys(STAGE_NAMES, (Stage, ...)),
    )


class JobProgress(ResponseModel):
    """Live progress of a running job."""

    overall_progress: float = Percent
    status: JobStatus
    stages: Stages


class Word(ResponseModel):
    """One spoken word."""

    text: str
    start: float
    end: float
    confidence: float | None


class Segment(ResponseModel):
    """Text spoken between `start` and `end`, in seconds."""

    index: int
    text: str
    start: float
    end: float
    duration: float
    translation: str | None
    confidence: float | None
    uncertain: bool = Field(description="Whether the text failed every quality check.")
    language: str
    words: list[Word]


class Chapter(ResponseModel):
    """A named part of a recording."""

    title: str
    start: float
    end: float


class Media(ResponseModel):
    """Metadata of the source: untrusted text."""

    title: str
    uploader: str
    webpage_url: str
    thumbnail_url: str
    extractor: str
    upload_date: str
    duration_seconds: float | None
    chapters: list[Chapter]


class AppliedFilter(ResponseModel):
    """An audio filter the normalizer applied."""

    name: str
    parameters: str
    target: str
    option: str


class JobWarning(ResponseModel):
    """A problem that does not fail the job."""

    reason: str = Field(description="One of the warnings in docs/errors.md.")
    message: str


class JobSummary(ResponseModel):
    """A job as an entry of a list."""

    job_id: str
    youtube_url: str = Field(
        description="URL of the source, whatever the site; empty for an upload."
    )
    title: str
    file_name: str
    status: JobStatus
    state: JobState
    progress: float = Percent
    created_at: Time
    updated_at: Time
    completed_at: Time | None
    duration_seconds: float | None
    language: str | None
    failure: Failure | None
    owner: str = Field(description="Subject of the token it was made with; empty without one.")
    group: str = Field(description="Group of tokens it is shared with; empty: none.")


class JobDetail(JobSummary):
    """A job in full."""

    overall_progress: float = Percent
    stages: Stages
    transcription_text: str | None = None
    transcription_segments: list[Segment] = []
    transcription_file: str | None = Field(description="Name of the captions.")
    transcription_url: str | None = Field(description="Where they are.")
    audio_file: str | None = Field(description="Name of the kept audio.")
    audio_url: str | None = Field(description="Where it is.")
    media: Media | None
    options: Options
    filters: list[AppliedFilter]
    warnings: list[JobWarning]
    segment_count: int
    model: str | None
    translation_model: str | None
    language_probability: float | None
    language_out: str | None
    human_captions: str | None
    cached_from_job_id: str | None
    attempt: int
    max_attempts: int
    priority: str
    caller: str
    cancel_note: str | None
    webhook_url: str
    correlation_id: str
    error: str | None = Field(
        description="The message of `failure`, for clients of the earlier system."
    )
    formats: list[str]
    can_cancel: bool
    can_retry: bool


class JobAccepted(ResponseModel):
    """A job that is durable and will run."""

    job_id: str
    status: JobStatus
    message: str
    youtube_url: str
    overall_progress: float = Percent


class JobList(ResponseModel):
    """One page of jobs, newest first."""

    total: int
    next_page_token: str
    jobs: list[JobSummary]


class JobDeleted(ResponseModel):
    """What was deleted with a job."""

    job_id: str
    events_removed: int
    artifacts_removed: int


class Cue(ResponseModel):
    """Text on the screen between `start` and `end`, in seconds."""

    index: int
    start: float
    end: float
    lines: list[str]
    text: str
