"""The input of a report: the collection, its members, and the text of one member at a time."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class State(StrEnum):
    """State of the collection."""

    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    PARTIAL = "PARTIAL"
    CANCELLED = "CANCELLED"


class MemberState(StrEnum):
    """State of a member."""

    COMPLETED = "COMPLETED"
    RUNNING = "RUNNING"
    PENDING = "PENDING"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"

    @property
    def words(self) -> str:
        """The state for readers, such as "timed out"."""
        return self.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something went wrong."""

    reason: str
    message: str = ""
    stage: str = ""
    """Of a job: DOWNLOAD, NORMALIZATION, TRANSCRIPTION; empty if the job as a whole failed."""
    retryable: bool = False
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """How the listing of one source went."""

    source: str
    complete: bool
    found: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One recording. Title and address are untrusted text."""

    number: int
    url: str
    state: MemberState
    title: str = ""
    job_id: str = ""
    duration_seconds: float | None = None
    language: str = ""
    upload_date: str = ""
    late: bool = False
    attempt: int = 0
    end_time: datetime | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file an executor made."""

    name: str
    media_type: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Subtask:
    """What a collector or an executor did. Failure and result are untrusted text."""

    number: int
    role: str
    """"collector" or "executor"."""
    type: str
    state: MemberState
    task_id: str = ""
    member: int = 0
    """The recording it is about; 0 for none, or all."""
    document: int = 0
    found: int = 0
    attempt: int = 0
    late: bool = False
    end_time: datetime | None = None
    failure: Failure | None = None
    parameters: str = ""
    """JSON."""
    result: str = ""
    """JSON; empty until it is there."""
    files: tuple[ResultFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A text that a collector found, without the text. All of it is untrusted."""

    number: int
    subtask: int
    url: str = ""
    title: str = ""
    language: str = ""
    publish_date: str = ""


@dataclass(frozen=True, slots=True)
class Translation:
    """The text of a member in another language."""

    language: str
    content: str
    """Paragraphs with an empty line between them."""
    language_name: str = ""
    """The language in words and as a tag, such as `Portuguese (pt-BR)`."""

    @property
    def paragraphs(self) -> list[str]:
        """The paragraphs, none of them empty."""
        return _paragraphs(self.content)


@dataclass(frozen=True, slots=True)
class Text:
    """The transcript of a member."""

    content: str = ""
    """Paragraphs with an empty line between them."""
    complete: bool = False
    """Whether it is the whole transcript."""
    note: str = ""
    """Why there is no text, or not all of it; for readers."""
    language: str = ""
    """Language of the text; the member itself may not have it yet."""
    language_name: str = ""
    translation: Translation | None = None
    """None if it was not translated."""

    @property
    def paragraphs(self) -> list[str]:
        """The paragraphs, none of them empty."""
        return _paragraphs(self.content)


def _paragraphs(content: str) -> list[str]:
    return [part.strip() for part in content.split("\n\n") if part.strip()]


@dataclass(frozen=True, slots=True)
class Collection:
    """The collection and its members, without the texts."""

    collection_id: str
    correlation_id: str
    state: State
    report_time: datetime
    """When the report was requested."""
    create_time: datetime
    members: tuple[Member, ...] = ()
    """In the order they were found."""
    title: str = ""
    sources: tuple[str, ...] = ()
    settled: bool = False
    discovery_complete: bool = False
    deadline: datetime | None = None
    end_time: datetime | None = None
    """When the collection ended; None until then."""
    late_count: int = 0
    listings: tuple[Listing, ...] = ()
    caller: str = ""
    from_date: str = ""
    to_date: str = ""
    cancel_note: str = ""
    language_out: str = ""
    """The requested language of translations; the texts say which exist."""
    language_out_name: str = ""
    subtasks: tuple[Subtask, ...] = ()
    """What its collectors and executors did."""
    documents: tuple[Document, ...] = ()

    @property
    def counts(self) -> dict[MemberState, int]:
        """Members by state; states without members are left out."""
        found = dict.fromkeys(MemberState, 0)
        for member in self.members:
            found[member.state] += 1
        return {state: count for state, count in found.items() if count}

    @property
    def broken_listings(self) -> list[Listing]:
        """The listings that failed."""
        return [listing for listing in self.listings if listing.failure]
