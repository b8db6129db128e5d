"""Prometheus metrics of jobs, stages, queues, collections and webhooks."""

from google.protobuf.timestamp_pb2 import Timestamp
from prometheus_client import Counter, Gauge, Histogram

from orchestrator.pipeline.stages import StateId, stage_name
from ytcaption.v1 import job_pb2

JOB_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 14_400, 43_200, 86_400)

JOBS = Gauge("ytcaption_jobs", "Jobs by state.", ["state"])
QUEUE_DEPTH = Gauge("ytcaption_queue_depth", "Jobs that wait or run.")
CONSUMER_LAG = Gauge(
    "ytcaption_consumer_lag", "Messages a consumer has not finished.", ["consumer"]
)
TYPES_HEALTHY = Gauge(
    "ytcaption_type_healthy", "Whether a registered service answers.", ["role", "type"]
)
DEAD_LETTERS = Gauge("ytcaption_dead_letters", "Dead letters.")

JOB_SECONDS = Histogram(
    "ytcaption_job_seconds",
    "Cycle time of a job, from its acceptance to its end.",
    ["state"],
    buckets=JOB_BUCKETS,
)
QUEUE_SECONDS = Histogram(
    "ytcaption_queue_seconds",
    "How long a job waited for its first attempt.",
    buckets=(0.1, 0.5, *JOB_BUCKETS),
)
RETRIES = Counter(
    "ytcaption_retries", "Retries of jobs, tasks, listings and webhooks.", ["kind", "reason"]
)
COLLECTIONS_ACCEPTED = Counter("ytcaption_collections_accepted", "Collections accepted here.")
COLLECTIONS_GATHERED = Counter(
    "ytcaption_collections_gathered", "Collections gathered here, by outcome.", ["state"]
)

JOBS_RUNNING = Gauge("ytcaption_jobs_running", "Attempts under way in this runner.")
JOBS_ENDED = Counter("ytcaption_jobs_ended", "Jobs that became terminal here.", ["state", "reason"])
ATTEMPTS_FAILED = Counter(
    "ytcaption_attempts_failed",
    "Failed attempts, by the stage to blame.",
    ["stage", "reason"],
)
STAGE_SECONDS = Histogram(
    "ytcaption_stage_seconds",
    "How long a stage of an attempt took.",
    ["stage", "state"],
    buckets=(0.1, 0.5, 2, 10, 30, 60, 300, 1800, 7200, 43_200),
)
SEGMENTS = Counter("ytcaption_segments", "Segments settled.")
MEDIA_SECONDS = Counter("ytcaption_media_seconds", "Media time of jobs that succeeded.")

SEARCH_INDEXED = Gauge("ytcaption_search_indexed", "Recordings in this orchestrator's index.")
SEARCH_BEHIND = Gauge(
    "ytcaption_search_behind", "Recordings that ended and are not in the index yet."
)

WEBHOOK_ATTEMPTS = Counter(
    "ytcaption_webhook_attempts", "Attempts to deliver a webhook.", ["outcome"]
)


def note_stage_end(status: job_pb2.StageStatus) -> None:
    """Counts a stage that has just ended."""
    if status.HasField("start_time"):
        state = job_pb2.StageState.Name(status.state).removeprefix("STAGE_STATE_").lower()
        STAGE_SECONDS.labels(stage_name(status.stage), state).observe(
            _seconds(status.start_time, status.end_time)
        )


def note_first_attempt(job: job_pb2.Job) -> None:
    """Measures how long a job that has just begun has waited."""
    QUEUE_SECONDS.observe(_seconds(job.create_time, job.start_time))


def note_job_end(job: job_pb2.Job, state: StateId) -> None:
    """Counts a job that has just ended."""
    word = job_pb2.JobState.Name(state).removeprefix("JOB_STATE_").lower()
    if job.HasField("create_time"):
        JOB_SECONDS.labels(word).observe(_seconds(job.create_time, job.end_time))
    JOBS_ENDED.labels(word, job.failure.reason if job.HasField("failure") else "").inc()
    if state == job_pb2.JOB_STATE_SUCCEEDED:
        MEDIA_SECONDS.inc(job.media.duration.ToTimedelta().total_seconds())


def _seconds(begin: Timestamp, end: Timestamp) -> float:
    """Never negative: clocks of replicas differ."""
    return max(0, end.ToNanoseconds() - begin.ToNanoseconds()) / 1e9
