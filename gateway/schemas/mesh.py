"""Requests and responses about the mesh: dead letters, webhooks, health, statistics, cleanup."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from gateway.schemas.jobs import ModelPreparation, ResponseModel, Time
from gateway.schemas.options import Strict

MAX_AGE_HOURS = 876_000
"""A century."""

LEGACY_SERVICE_NAMES = {
    "downloader": "video-downloader",
    "normalizer": "audio-normalization",
    "transcriber": "audio-transcriber",
}
"""Names of the stage services in responses, as in the earlier system."""

DeliveryState = Literal["pending", "delivered", "dead"]


class Session(ResponseModel):
    """Who the client is."""

    subject: str = Field(
        description="The person or program the token stands for; empty without a login."
    )
    role: str = Field(description="`reader`, `submitter`, `operator` or `admin`.")
    login: bool = Field(description="Whether this mesh has a login.")
    groups: list[str] = Field(description="Groups of the token.")
    csrf_token: str = Field(
        description="What a page sends as `X-CSRF-Token` with each change; empty without a session."
    )


class Quota(ResponseModel):
    """One limit of an owner, and how much of it is used."""

    limit: str = Field(description="Such as `queued_jobs`, `stored_bytes` or `audio_hours`.")
    maximum: float | None = Field(description="Jobs, bytes or hours; null: there is no limit.")
    used: float
    overridden: bool = Field(description="Whether an admin set it for this owner.")


class Quotas(ResponseModel):
    """The limits of the client's owner."""

    owner: str = Field(description="Subject of the token; empty without a login.")
    quotas: list[Quota]


LetterKind = Literal["job", "event", "webhook", "task"]


class DeadLetter(ResponseModel):
    """A job, an event, a webhook or a task that is not retried any more."""

    letter_id: str = Field(description="Id for replay and deletion; that of a job is its job_id.")
    kind: LetterKind = Field(
        description="task: a call of a collector or an executor of the collection."
    )
    job_id: str = Field(description="Empty unless the letter is about a job.")
    collection_id: str
    correlation_id: str
    subject: str = Field(description="NATS subject of an event.")
    reason: str
    message: str
    stage: str | None
    attempts: int
    failed_at: datetime
    title: str
    youtube_url: str
    file_name: str
    retryable: bool
    owner: str = Field(description="That of its job or collection; empty for events.")


class DeadLetterSent(ResponseModel):
    """An event or a webhook that was sent again, or a task that runs again."""

    letter_id: str
    sent: Literal[True] = True


class DeadLetterList(ResponseModel):
    """One page of dead letters, newest first."""

    total: int
    next_page_token: str
    dead_letters: list[DeadLetter]


class DeadLettersRemoved(ResponseModel):
    """How many dead letters were deleted, or would be."""

    dead_letters_removed: int
    dry_run: bool


class DeliveryAttempt(ResponseModel):
    """One attempt to deliver a webhook."""

    number: int
    started_at: datetime
    seconds: float
    status: int | None = Field(description="HTTP status of the receiver; null without an answer.")
    error: str | None


class Delivery(ResponseModel):
    """One webhook and every attempt to deliver it."""

    event_id: str
    type: str
    url: str
    job_id: str | None
    collection_id: str | None
    state: DeliveryState
    attempts: list[DeliveryAttempt]
    next_attempt_at: datetime | None
    created_at: datetime


class DeliveryList(ResponseModel):
    """One page of webhooks, newest first."""

    deliveries: list[Delivery]
    next_page_token: str


class Component(ResponseModel):
    """Health of one component."""

    status: str
    detail: str
    preparing: ModelPreparation | None


class Health(ResponseModel):
    """Health of the mesh and its components."""

    status: Literal["healthy", "unhealthy"]
    service: str
    version: str
    timestamp: Time
    microservices: dict[str, str]
    components: dict[str, Component]


class Model(ResponseModel):
    """A speech recognition model."""

    name: str
    languages: list[str]
    loaded: bool
    selected: bool


class Translation(ResponseModel):
    """A translation model: from any source language to any target language."""

    model: str
    source_languages: list[str]
    target_languages: list[str]


class CaptionFormat(ResponseModel):
    """One format captions can be had in."""

    name: str = Field(description="As in `/jobs/{job_id}/captions.{format}`.")
    suffix: str
    media_type: str
    description: str = Field(description="One line for people, in English.")
    word_cues: bool = Field(description="Whether it can carry a time for each word.")
    usual: bool = Field(description="Whether clients write it if no format is named.")


class Capabilities(ResponseModel):
    """Options, models, formats and limits of this installation."""

    models: list[Model]
    languages: list[str]
    translations: list[Translation]
    options_unavailable: dict[str, str]
    formats: list[str] = Field(description="Their names; `caption_formats` says more.")
    caption_formats: list[CaptionFormat]
    limits: dict[str, int | float]
    silent_stages: list[str]


class OrchestratorInfo(ResponseModel):
    """Version and installation of the orchestrator."""

    version: str
    environment: str


class StorageStats(ResponseModel):
    """Contents of JetStream, under the field names of the earlier system."""

    total_jobs: int
    active_jobs: int
    completed_jobs: int
    failed_jobs: int
    cancelled_jobs: int
    queued_jobs: int
    dead_letters: int
    memory_usage: str
    stored_bytes: int


class Stats(ResponseModel):
    """Job counts, storage sizes and settings."""

    orchestrator: OrchestratorInfo
    redis: StorageStats
    settings: dict[str, int | float | str | None]
    uptime_seconds: float


class CleanupOptions(Strict):
    """What a cleanup deletes."""

    max_age_hours: float = Field(
        default=24,
        ge=0,
        le=MAX_AGE_HOURS,
        allow_inf_nan=False,
        description="Deletes jobs that ended and collections that settled longer ago than this.",
    )
    deep: bool = Field(
        default=False,
        description="Also deletes log files that were moved aside longer ago than that.",
    )
    dry_run: bool = Field(default=False, description="Only count.")


class FactoryResetOptions(Strict):
    """Confirmation of a factory reset."""

    confirmation: str = Field(default="", max_length=100, description="Must be: ERASE EVERYTHING")
    dry_run: bool = Field(default=False, description="Only count.")


class CleanupResult(ResponseModel):
    """What was deleted, or would be."""

    message: str
    jobs_removed: int
    collections_removed: int
    logs_cleaned: bool = Field(
        description="Whether log files were cleaned: with `deep`, where the orchestrator has some."
    )
    log_files_removed: int
    events_removed: int = Field(description="Stored events of the deleted jobs and collections.")
    files_removed: int
    bytes_removed: int
    dry_run: bool


class OrchestratorReset(ResponseModel):
    """What the orchestrator deleted."""

    jobs_removed: int
    collections_removed: int
    logs_cleaned: bool
    tasks_purged: int
    files_removed: int
    bytes_removed: int


class ServiceReset(ResponseModel):
    """What a stage service deleted."""

    status: str = Field(description="`success`, or what went wrong.")
    data: dict[str, int]


class FactoryResetResult(ResponseModel):
    """What each service deleted, or would."""

    message: str
    orchestrator: OrchestratorReset
    microservices: dict[str, ServiceReset]
    warning: str | None


class Alive(ResponseModel):
    """The gateway accepts requests."""

    status: Literal["alive"]


class EraseOptions(Strict):
    """Whose things to erase, and the confirmation."""

    owner: str = Field(default="", max_length=128)
    confirmation: str = Field(
        default="", max_length=200, description="Must be: ERASE, a blank, and the owner."
    )
    dry_run: bool = Field(default=False, description="Only count.")


class ErasedCounts(ResponseModel):
    """What was removed, or would be."""

    jobs: int
    collections: int
    events: int
    files: int
    bytes: int
    webhooks: int
    dead_letters: int
    published_events: int
    tokens: int
    sessions: int
    scratch_files: int


class EraseResult(ResponseModel):
    """The end of an erasure."""

    owner: str
    dry_run: bool
    removed: ErasedCounts
    remarks: list[str] = Field(description="What stays and needs a person.")


class RetentionOptions(Strict):
    """Whose ended work to keep for how long."""

    owner: str = Field(default="", max_length=128)
    days: float | None = Field(default=None, ge=0, le=36_500, allow_inf_nan=False)


class OwnerRetention(ResponseModel):
    """How long ended work of one owner is kept."""

    owner: str
    days: float | None = Field(description="null: as the settings say.")


class OwnerRetentionList(ResponseModel):
    """The owners with a retention of their own."""

    retentions: list[OwnerRetention]
