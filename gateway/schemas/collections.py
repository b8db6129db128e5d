"""Requests and responses about collections: many recordings under one request."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from gateway.schemas.jobs import Failure, Percent, ResponseModel
from gateway.schemas.options import CaptionFormat, Options, Strict, SubmissionFields
from mesh.job_options import MAX_URL

CollectionState = Literal["running", "complete", "partial", "cancelled"]
MemberState = Literal["pending", "running", "completed", "failed", "timed_out", "cancelled"]
SubtaskState = Literal["pending", "running", "completed", "failed", "timed_out", "cancelled"]
MAX_SOURCES = 20
MAX_EXECUTORS = 20
MAX_TYPE = 40
MAX_ADDRESSES = 10_000
MAX_TITLE = 200
YEAR_SECONDS = 366 * 24 * 3600

Address = Annotated[str, Field(min_length=1, max_length=MAX_URL)]
Day = Annotated[str, Field(max_length=10, examples=["2025-10-01"])]
Count = Annotated[int, Field(ge=0, lt=2**31)]


class SourceSpec(Strict):
    """Something to collect, by a registered collector."""

    type: str = Field(min_length=1, max_length=MAX_TYPE, examples=["blog"])
    parameters: dict[str, Any] = Field(default={}, description="As the schema of the type says.")


class ExecutorSpec(Strict):
    """Something to make of what was collected, by a registered executor."""

    kind: str = Field(min_length=1, max_length=MAX_TYPE, examples=["relatorio"])
    parameters: dict[str, Any] = Field(default={}, description="As the schema of the kind says.")
    scope: Literal["item", "collection"] | None = Field(
        default=None, description="What one call gets; left out: what the kind prefers."
    )


Source = Annotated[
    Annotated[Address, Tag("address")] | Annotated[SourceSpec, Tag("collector")],
    Discriminator(lambda value: "address" if isinstance(value, str) else "collector"),
]


class CollectionRequest(Options, SubmissionFields):
    """A collection to create; its options apply to every member."""

    sources: list[Source] = Field(
        default=[],
        max_length=MAX_SOURCES,
        description="Playlists, channels, or searches (ytsearch5:…), listed one after another; or"
        " what registered collectors are to find, each by type and parameters.",
    )
    executors: list[ExecutorSpec] = Field(
        default=[],
        max_length=MAX_EXECUTORS,
        description="What registered executors are to make of it.",
    )
    addresses: list[Address] = Field(
        default=[],
        max_length=MAX_ADDRESSES,
        description="URLs of single recordings; at least one URL here or in `sources` is required.",
    )
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=YEAR_SECONDS,
        allow_inf_nan=False,
        description="Seconds after which unfinished members become timed_out; none by default.",
    )
    max_in_flight: Count = Field(
        default=0, description="Members that run at once; 0: the operator's default."
    )
    max_members: Count = Field(default=0, description="0: the operator's limit.")
    period: str = Field(
        default="",
        max_length=10,
        examples=["2025-10"],
        description="Year, month or day of publication; replaces from_date and to_date.",
    )
    from_date: Day = Field(default="", description="First day of publication.")
    to_date: Day = Field(default="", description="Last day of publication.")
    title: str = Field(default="", max_length=MAX_TITLE, description="Title of the reports.")


class Counts(ResponseModel):
    """Members by state."""

    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    timed_out: int = 0
    cancelled: int = 0


class Listing(ResponseModel):
    """Progress of listing one source."""

    source: str
    complete: bool
    found: int
    failure: Failure | None


class Collection(ResponseModel):
    """Many recordings under one request."""

    collection_id: str
    title: str
    state: CollectionState
    settled: bool = Field(description="Whether no member can change any more.")
    sources: list[str]
    listings: list[Listing]
    discovery_complete: bool = Field(
        description="Whether every source was listed to its end, or to where it failed."
    )
    member_count: int
    subtask_count: int = Field(description="Calls of collectors and executors.")
    document_count: int = Field(description="Texts that collectors found.")
    counts: Counts
    late_count: int
    created_at: datetime
    updated_at: datetime
    deadline: datetime | None
    gathered_at: datetime | None = Field(
        description="When every member had ended, or the deadline passed."
    )
    from_date: str
    to_date: str
    max_in_flight: int
    options: Options
    priority: str
    caller: str
    owner: str = Field(description="Subject of the token it was made with; empty without one.")
    group: str = Field(description="Group of tokens it is shared with; empty: none.")
    webhook_url: str
    cancel_note: str | None
    correlation_id: str
    can_cancel: bool


class Member(ResponseModel):
    """One recording of a collection; `job_id` is its job."""

    number: int
    job_id: str | None
    source_url: str
    title: str
    state: MemberState
    progress: float | None = Percent
    failure: Failure | None
    late: bool = Field(description="Whether it ended after the deadline.")
    duration_seconds: float | None
    language: str | None
    upload_date: str | None
    attempt: int
    ended_at: datetime | None


class ResultFile(ResponseModel):
    """A file an executor made."""

    name: str
    media_type: str
    size_bytes: int
    sha256: str
    url: str = Field(description="Where to get it.")


class Subtask(ResponseModel):
    """One call of a collector or an executor, with its retries."""

    number: int
    task_id: str
    role: Literal["collector", "executor"]
    type: str
    parameters: dict[str, Any]
    member: int | None = Field(description="The recording it is about; null: none, or all.")
    document: int | None = Field(description="The document it is about; null: none, or all.")
    state: SubtaskState
    progress: float | None = Percent
    failure: Failure | None
    attempt: int
    found: int = Field(description="Recordings and documents a collector found so far.")
    result: dict[str, Any] | None = Field(description="What an executor answered.")
    files: list[ResultFile]
    late: bool = Field(description="Whether it ended after the deadline.")
    ended_at: datetime | None


class SubtaskList(ResponseModel):
    """One page of subtasks, by number."""

    subtasks: list[Subtask]
    next_page_token: str


class Document(ResponseModel):
    """A text that a collector found; all of it is untrusted."""

    number: int
    subtask: int
    url: str
    title: str
    text: str = Field(description="Empty in the event stream.")
    language: str
    publish_date: str
    metadata: dict[str, Any]


class DocumentList(ResponseModel):
    """One page of documents, by number."""

    documents: list[Document]
    next_page_token: str


class CollectionDetail(Collection):
    """A collection with one page of its members."""

    members: list[Member]
    next_page_token: str


class CollectionList(ResponseModel):
    """One page of collections, newest first."""

    collections: list[Collection]
    next_page_token: str


class CollectionDeleted(ResponseModel):
    """What was deleted with a collection."""

    collection_id: str
    jobs_removed: int


class ReportQuery(Strict):
    """Which report, and whether to save it."""

    format: Literal["json", "markdown", "html", "pdf", "zip"] = "json"
    captions: CaptionFormat = Field(default="srt", description="Format of the captions in a zip.")
    download: bool = Field(default=False, description="Send as an attachment.")
