"""Ends jobs: writes the record first, then the dead letter, then the event log."""

from google.protobuf.duration import from_seconds
from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.bus import outlast
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.lease import Lease
from orchestrator.jobs.resume_state import ResumeState
from orchestrator.jobs.storage import JobStorage
from orchestrator.metrics import note_job_end, note_stage_end
from orchestrator.pipeline.stages import StateId, stage_status
from ytcaption.v1 import event_pb2, job_pb2

log = get_logger(__name__)


async def end_job(
    storage: JobStorage, lease: Lease, event_log: EventLogWriter, state: StateId
) -> None:
    """Makes the job terminal: an end in the event log is always in the record, too."""
    # First of all: after a crash the next runner only completes the event log, never runs again.
    await end_record(lease, state)
    await append_end(storage, lease.job, event_log)


async def end_record(lease: Lease, state: StateId) -> None:
    """Makes the job's record terminal; stages that have not ended are skipped."""
    job = lease.job
    skip_open_stages(job)
    job.state = state
    job.end_time.CopyFrom(from_current_time())
    await lease.save()
    note_job_end(job, state)


async def complete_event_log(
    storage: JobStorage, job: job_pb2.Job, resume_state: ResumeState
) -> None:
    """Appends the end of a terminal job if its runner died between the record and the log."""
    if not resume_state.finished:
        event_log = EventLogWriter(storage.bus, job, resume_state.last_sequence)
        await append_end(storage, job, event_log, result_logged=resume_state.result_logged)


async def append_end(
    storage: JobStorage, job: job_pb2.Job, event_log: EventLogWriter, *, result_logged: bool = False
) -> None:
    """Does what follows from a terminal record; the next runner repeats it after a crash."""
    if not result_logged:
        await _append_result(job, event_log)
    if job.state == job_pb2.JOB_STATE_FAILED:
        await outlast(lambda: storage.dead_letters.add_job(job))
    await event_log.append(job_finished=event_pb2.JobFinished(job=job))
    log.info("job ended", state=job_pb2.JobState.Name(job.state), attempt=job.attempt)


async def _append_result(job: job_pb2.Job, event_log: EventLogWriter) -> None:
    result = event_pb2.ExecutionResult(
        state=stage_status(job, job_pb2.STAGE_TRANSCRIPTION).state,
        language=job.language,
        model=job.model,
        duration=job.media.duration if job.HasField("media") else from_seconds(0),
        segment_count=job.segment_count,
        failure=job.failure if job.HasField("failure") else None,
        source=job.source,
        warnings=job.warnings,
        job_state=job.state,
    )
    await event_log.append(execution_result=result)


def skip_open_stages(job: job_pb2.Job) -> None:
    """Marks every stage that has not ended as skipped."""
    for status in job.stages:
        if status.state in (job_pb2.STAGE_STATE_RUNNING, job_pb2.STAGE_STATE_PENDING):
            end_stage(status, job_pb2.STAGE_STATE_SKIPPED)


def end_stage(status: job_pb2.StageStatus, state: "job_pb2.StageState.ValueType") -> None:
    """Marks a stage as ended."""
    status.state = state
    status.end_time.CopyFrom(from_current_time())
    status.ClearField("preparing")
    note_stage_end(status)
