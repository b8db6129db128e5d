"""The JSON callers get. Names and types of the earlier system are kept; see docs/http.md."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.choices import Options

StatusWord = Literal[
    "queued", "downloading", "normalizing", "transcribing", "completed", "failed", "cancelled"
]
StateWord = Literal["queued", "running", "succeeded", "failed", "cancelled"]
StageWord = Literal["pending", "running", "completed", "failed", "timed_out", "skipped"]
Percent = Field(ge=0, le=100)
CAPTION_FORMATS = ("srt", "vtt", "txt", "json", "tsv", "lrc")


class Shape(BaseModel):
    """Anything we answer with."""

    model_config = ConfigDict(protected_namespaces=())


class Failure(Shape):
    """Why a job failed."""

    reason: str
    message: str
    retryable: bool
    stage: str | None
    attempt: int


class Preparing(Shape):
    """What a model still needs before it can listen."""

    model: str
    phase: str
    done_bytes: int | None
    total_bytes: int | None
    text: str


class Stage(Shape):
    """How one stage is doing; amounts are in its own unit."""

    status: StageWord
    job_id: str | None
    progress: float = Percent
    started_at: datetime | None
    completed_at: datetime | None
    done: float | None
    total: float | None
    unit: Literal["bytes", "seconds"]
    bytes_per_second: float | None
    eta_seconds: float | None
    preparing: Preparing | None


class Stages(Shape):
    """The three stages; they overlap in time."""

    download: Stage
    normalization: Stage
    transcription: Stage


class Figures(Shape):
    """How far a job is, live."""

    overall_progress: float = Percent
    status: StatusWord
    stages: Stages


class Word(Shape):
    """One spoken word."""

    text: str
    start: float
    end: float
    confidence: float | None


class Segment(Shape):
    """Text spoken between two moments, in seconds."""

    index: int
    text: str
    start: float
    end: float
    duration: float
    translation: str | None
    confidence: float | None
    language: str
    words: list[Word]


class Chapter(Shape):
    """A named part of a recording."""

    title: str
    start: float
    end: float


class Media(Shape):
    """What the source says about itself: untrusted text."""

    title: str
    uploader: str
    webpage_url: str
    thumbnail_url: str
    extractor: str
    upload_date: str
    duration_seconds: float | None
    chapters: list[Chapter]


class Filter(Shape):
    """What the normalizer did."""

    name: str
    parameters: str
    target: str
    option: str


class Caution(Shape):
    """What a person should know although the job goes on."""

    reason: str
    message: str


class Summary(Shape):
    """A job in a list."""

    job_id: str
    youtube_url: str = Field(description="The address, whatever the site; empty for an upload.")
    title: str
    file_name: str
    status: StatusWord
    state: StateWord
    progress: float = Percent
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    duration_seconds: float | None
    language: str | None
    failure: Failure | None


class Detail(Summary):
    """Everything about a job."""

    overall_progress: float = Percent
    stages: Stages
    transcription_text: str | None = None
    transcription_segments: list[Segment] = []
    transcription_file: str | None
    audio_file: str | None
    media: Media | None
    options: Options
    filters: list[Filter]
    warnings: list[Caution]
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
    error: str | None = Field(description="The failure in a sentence, for old callers.")
    formats: list[str]
    can_cancel: bool
    can_retry: bool


class Accepted(Shape):
    """A job that is durable and will run."""

    job_id: str
    status: StatusWord
    message: str
    youtube_url: str
    overall_progress: float = Percent


class JobList(Shape):
    """One page of jobs, newest first."""

    total: int
    next_page_token: str
    jobs: list[Summary]


class Deleted(Shape):
    """What went with a job."""

    job_id: str
    events_removed: int
    artifacts_removed: int


class Cue(Shape):
    """What is on the screen between two moments, in seconds."""

    index: int
    start: float
    end: float
    lines: list[str]
    text: str
