"""The JSON about the mesh as a whole: dead letters, health, figures, housekeeping."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from gateway.shapes import Preparing, Shape


class Letter(Shape):
    """A job, an event or a webhook that will not be tried again."""

    letter_id: str = Field(description="What replay and removal take; a job's is the job's id.")
    kind: Literal["job", "event", "webhook"]
    job_id: str = Field(description="Empty if it is not about a job.")
    collection_id: str
    correlation_id: str
    subject: str = Field(description="The subject an event came on.")
    reason: str
    message: str
    stage: str | None
    attempts: int
    failed_at: datetime
    title: str
    youtube_url: str
    file_name: str
    retryable: bool


class LetterSent(Shape):
    """An event or a webhook that is on its way again."""

    letter_id: str
    sent: Literal[True] = True


class LetterList(Shape):
    """One page of dead letters, newest first."""

    total: int
    next_page_token: str
    dead_letters: list[Letter]


class LettersRemoved(Shape):
    """What went, or would."""

    dead_letters_removed: int
    dry_run: bool


class Component(Shape):
    """How one part of the mesh is."""

    status: str
    detail: str
    preparing: Preparing | None


class Health(Shape):
    """How the mesh is."""

    status: Literal["healthy", "unhealthy"]
    service: str
    version: str
    timestamp: datetime
    microservices: dict[str, str]
    components: dict[str, Component]


class Model(Shape):
    """A set of weights."""

    name: str
    languages: list[str]
    loaded: bool
    selected: bool


class Translation(Shape):
    """Each of the first languages into each of the others."""

    model: str
    source_languages: list[str]
    target_languages: list[str]


class Capabilities(Shape):
    """What a job may ask for here."""

    models: list[Model]
    languages: list[str]
    translations: list[Translation]
    options_unavailable: dict[str, str]
    formats: list[str]
    limits: dict[str, int | float]
    silent_stages: list[str]


class Version(Shape):
    """Who answers."""

    version: str
    environment: str


class Stored(Shape):
    """What JetStream holds; called as old callers call it."""

    total_jobs: int
    active_jobs: int
    completed_jobs: int
    failed_jobs: int
    cancelled_jobs: int
    queued_jobs: int
    dead_letters: int
    memory_usage: str
    stored_bytes: int


class Stats(Shape):
    """Counts, sizes and settings."""

    orchestrator: Version
    redis: Stored
    settings: dict[str, int | float]
    uptime_seconds: float


class CleanedUp(Shape):
    """What was removed."""

    message: str
    jobs_removed: int
    collections_removed: int
    logs_cleaned: int = Field(description="Stored events: the log of each job and collection.")
    files_removed: int
    bytes_removed: int
    dry_run: bool


class OwnReset(Shape):
    """What the orchestrator removed."""

    jobs_removed: int
    collections_removed: int
    logs_cleaned: int
    files_removed: int
    bytes_removed: int


class StageReset(Shape):
    """What another service removed."""

    status: str
    data: dict[str, int]


class Reset(Shape):
    """What was removed, by whom."""

    message: str
    orchestrator: OwnReset
    microservices: dict[str, StageReset]
    warning: str | None


class Alive(Shape):
    """That somebody listens."""

    status: Literal["alive"]
