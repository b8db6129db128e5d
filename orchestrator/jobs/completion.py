"""How a job ends: the record first, then the dead letter, then the story."""

from google.protobuf.duration import from_seconds
from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.bus import Bus, outlast
from orchestrator.deadletters import DeadLetters
from orchestrator.figures import note_job_end, note_stage_end
from orchestrator.lease import Lease
from orchestrator.stages import StateId
from orchestrator.story import StoryWriter
from ytcaption.v1 import event_pb2, job_pb2

log = get_logger(__name__)


async def end_job(bus: Bus, lease: Lease, story: StoryWriter, state: StateId) -> None:
    """Writes the end down: whoever sees it in the story finds it in the record."""
    job = lease.job
    job.state = state
    job.end_time.CopyFrom(from_current_time())
    # First of all: who dies after this leaves the telling to the next, never a second run.
    await lease.save()
    note_job_end(job, state)
    await tell_end(bus, job, story)


async def tell_end(
    bus: Bus, job: job_pb2.Job, story: StoryWriter, *, result_told: bool = False
) -> None:
    """What follows from a terminal record; done again by the next runner if the last one died."""
    if not result_told:
        await _tell_result(job, story)
    if job.state == job_pb2.JOB_STATE_FAILED:
        await outlast(lambda: DeadLetters(bus).bury(job))
    finished = event_pb2.JobFinished(job=job)
    await story.tell(event_pb2.EVENT_TYPE_JOB_FINISHED, job_finished=finished)
    log.info("job ended", state=job_pb2.JobState.Name(job.state), attempt=job.attempt)


async def _tell_result(job: job_pb2.Job, story: StoryWriter) -> None:
    result = event_pb2.ExecutionResult(
        state=job.stages[job_pb2.STAGE_TRANSCRIPTION - 1].state,
        language=job.language,
        model=job.model,
        duration=job.media.duration if job.HasField("media") else from_seconds(0),
        segment_count=job.segment_count,
        failure=job.failure if job.HasField("failure") else None,
        source=job.source,
    )
    await story.tell(event_pb2.EVENT_TYPE_EXECUTION_RESULT, execution_result=result)


def skip_open_stages(job: job_pb2.Job) -> None:
    """Stages that had not ended will not."""
    for status in job.stages:
        if status.state in (job_pb2.STAGE_STATE_RUNNING, job_pb2.STAGE_STATE_PENDING):
            end_stage(status, job_pb2.STAGE_STATE_SKIPPED)


def end_stage(status: job_pb2.StageStatus, state: "job_pb2.StageState.ValueType") -> None:
    """Marks a stage as over."""
    status.state = state
    status.end_time.CopyFrom(from_current_time())
    status.ClearField("preparing")
    note_stage_end(status)


def reset_stages(job: job_pb2.Job) -> None:
    """All three stages before their first step."""
    del job.stages[:]
    for stage in (
        job_pb2.STAGE_DOWNLOAD,
        job_pb2.STAGE_NORMALIZATION,
        job_pb2.STAGE_TRANSCRIPTION,
    ):
        job.stages.add(stage=stage, state=job_pb2.STAGE_STATE_PENDING, attempt=job.attempt)
