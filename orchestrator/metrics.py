"""Prometheus metrics of jobs, stages and webhooks."""

from prometheus_client import Counter, Gauge, Histogram

from orchestrator.pipeline.stages import StateId, stage_name
from ytcaption.v1 import job_pb2

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

WEBHOOK_ATTEMPTS = Counter(
    "ytcaption_webhook_attempts", "Attempts to deliver a webhook.", ["outcome"]
)


def note_stage_end(status: job_pb2.StageStatus) -> None:
    """Counts a stage that has just ended."""
    if status.HasField("start_time"):
        took = status.end_time.ToNanoseconds() - status.start_time.ToNanoseconds()
        state = job_pb2.StageState.Name(status.state).removeprefix("STAGE_STATE_").lower()
        STAGE_SECONDS.labels(stage_name(status.stage), state).observe(max(0, took) / 1e9)


def note_job_end(job: job_pb2.Job, state: StateId) -> None:
    """Counts a job that has just ended."""
    word = job_pb2.JobState.Name(state).removeprefix("JOB_STATE_").lower()
    JOBS_ENDED.labels(word, job.failure.reason if job.HasField("failure") else "").inc()
    if state == job_pb2.JOB_STATE_SUCCEEDED:
        MEDIA_SECONDS.inc(job.media.duration.ToTimedelta().total_seconds())
