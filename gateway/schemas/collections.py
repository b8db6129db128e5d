"""The JSON about collections: many recordings under one request."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from gateway.choices import MAX_URL, Options, Order
from gateway.shapes import Failure, Percent, Shape

CollectionWord = Literal["running", "complete", "partial", "cancelled"]
MemberWord = Literal["pending", "running", "completed", "failed", "timed_out", "cancelled"]
DeliveryWord = Literal["pending", "delivered", "dead"]
MAX_SOURCES = 20
MAX_ADDRESSES = 10_000
MAX_TITLE = 200
YEAR_SECONDS = 366 * 24 * 3600

Address = Annotated[str, Field(min_length=1, max_length=MAX_URL)]
Day = Annotated[str, Field(max_length=10, examples=["2025-10-01"])]
Count = Annotated[int, Field(ge=0, lt=2**31)]


class CollectionRequest(Options, Order):
    """What to collect; options are those of every member."""

    sources: list[Address] = Field(
        default=[],
        max_length=MAX_SOURCES,
        description="Playlists, channels, or searches (ytsearch5:…), listed one after the other.",
    )
    addresses: list[Address] = Field(
        default=[],
        max_length=MAX_ADDRESSES,
        description="Single recordings. With `sources`, at least one.",
    )
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=YEAR_SECONDS,
        allow_inf_nan=False,
        description="After so many seconds what is missing is marked timed_out; never if left out.",
    )
    max_in_flight: Count = Field(
        default=0, description="Members in flight at once; 0: as the operator says."
    )
    max_members: Count = Field(default=0, description="0: as many as the operator allows.")
    period: str = Field(
        default="",
        max_length=10,
        examples=["2025-10"],
        description="Year, month or day of publication, instead of the two days.",
    )
    from_date: Day = Field(default="", description="First day of publication wanted.")
    to_date: Day = Field(default="", description="Last day of publication wanted.")
    title: str = Field(default="", max_length=MAX_TITLE, description="What reports call it.")


class Counts(Shape):
    """Members by state."""

    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    timed_out: int = 0
    cancelled: int = 0


class Listing(Shape):
    """How the listing of one source goes."""

    source: str
    complete: bool
    found: int
    failure: Failure | None


class Collection(Shape):
    """Many recordings under one request."""

    collection_id: str
    title: str
    state: CollectionWord
    settled: bool = Field(description="No member can change any more.")
    sources: list[str]
    listings: list[Listing]
    discovery_complete: bool = Field(description="Every source was listed as far as it goes.")
    member_count: int
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
    webhook_url: str
    cancel_note: str | None
    correlation_id: str
    can_cancel: bool


class Member(Shape):
    """One recording of a collection; `job_id` leads to all of it."""

    number: int
    job_id: str | None
    source_url: str
    title: str
    state: MemberWord
    progress: float | None = Percent
    failure: Failure | None
    late: bool = Field(description="It ended after the deadline.")
    duration_seconds: float | None
    language: str | None
    upload_date: str | None
    attempt: int
    ended_at: datetime | None


class CollectionDetail(Collection):
    """A collection with one page of its members."""

    members: list[Member]
    next_page_token: str


class CollectionList(Shape):
    """One page of collections, newest first."""

    collections: list[Collection]
    next_page_token: str


class CollectionDeleted(Shape):
    """What went with a collection."""

    collection_id: str
    jobs_removed: int


class DeliveryAttempt(Shape):
    """One attempt to deliver a webhook."""

    number: int
    started_at: datetime
    seconds: float
    status: int | None = Field(description="Of HTTP; none if nobody answered.")
    error: str | None


class Delivery(Shape):
    """One webhook and every attempt to deliver it."""

    event_id: str
    type: str
    url: str
    job_id: str | None
    collection_id: str | None
    state: DeliveryWord
    attempts: list[DeliveryAttempt]
    next_attempt_at: datetime | None
    created_at: datetime


class DeliveryList(Shape):
    """One page of webhooks, newest first."""

    deliveries: list[Delivery]
    next_page_token: str
