"""Routes of a single job: read, follow, cancel, retry, delete."""

import asyncio
from contextlib import suppress
from time import time

from fastapi import APIRouter
from starlette.responses import Response

from gateway.client import Orchestrator, call, create
from gateway.deps import Deps
from gateway.http.parameters import CancelNote, JobId, Naive
from gateway.http.problems import problem_responses
from gateway.presenters import jobs as present
from gateway.presenters.old_form import as_polled, in_old_form
from gateway.presenters.transcript import detail_with_text
from gateway.schemas.jobs import JobDeleted, JobDetail, JobSummary
from gateway.sse.jobs import JobStream
from gateway.sse.stream import Position, if_available, stream_responses
from mesh.correlation import current
from mesh.errors import NotFoundError
from mesh.watching import TERMINAL
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter(prefix="/jobs/{job_id}", tags=["jobs"])

STOP_SECONDS = 60.0
"""Deadline of calls that stop a job: its stage may have to be killed first."""

FRESH_SECONDS = 10.0
LETTER_DELAYS = (0.0, 0.1, 0.3, 1.0)


@router.get("", responses=problem_responses(404))
async def get_job(job_id: JobId, deps: Deps, naive_timestamps: Naive = False) -> JobDetail:
    """Returns a job in full, with its text so far.

    Clients of the earlier system poll this until `status` is `completed` or `failed`: that of a
    cancelled job is `failed` here, and its `state` is `cancelled`.
    """
    found = await detail_with_text(deps.orchestrator, await deps.orchestrator.job(job_id))
    return in_old_form(as_polled(found), naive_timestamps=naive_timestamps)


@router.get(
    "/events",
    responses=stream_responses("the job has ended") | problem_responses(404),
    response_class=Response,
)
async def follow_job(job_id: JobId, deps: Deps, position: Position) -> Response:
    """Streams a job's event log, from its start or after the client's last event, then live."""
    job = await if_available(deps.orchestrator.job(job_id), position)
    deps.streams.check_capacity()
    updates = deps.job_feeds.updates(job_id, position, job)
    stream = JobStream(job_id, updates, deps.final_events)
    ended = job is not None and job.state in TERMINAL
    return await deps.streams.resume(stream, position, ended=ended)


@router.post("/cancel", responses=problem_responses(404))
async def cancel_job(job_id: JobId, deps: Deps, note: CancelNote = "") -> JobDetail:
    """Stops a job and keeps its text so far; an ended job is returned unchanged."""
    request = pb.CancelJobRequest(job_id=job_id, note=note)
    done = await call(deps.orchestrator.pipeline.CancelJob, request, STOP_SECONDS)
    return await detail_with_text(deps.orchestrator, done.job)


@router.post("/retry", status_code=202, responses=problem_responses(404, 409, 507))
async def retry_job(job_id: JobId, deps: Deps) -> JobSummary:
    """Runs a failed job again under its id; repeats any other ended job as a new job."""
    job = await deps.orchestrator.job(job_id)
    if job.state == job_pb2.JOB_STATE_FAILED:
        replayed = await _replay(deps.orchestrator, job)
        if replayed is not None:
            return present.summary(replayed)
    request = pb.RepeatJobRequest(job_id=job_id, correlation_id=current())
    repeated = await create(deps.orchestrator.pipeline.RepeatJob, request, STOP_SECONDS)
    return present.summary(repeated.job)


async def _replay(orchestrator: Orchestrator, job: job_pb2.Job) -> job_pb2.Job | None:
    """Replays the job's dead letter; None if it was purged.

    The dead letter of a job that has just failed may still be on its way.
    """
    request = admin_pb.ReplayDeadLetterRequest(job_id=job.job_id)
    fresh = time() - job.end_time.seconds < FRESH_SECONDS
    for delay in LETTER_DELAYS if fresh else (0.0,):
        await asyncio.sleep(delay)
        with suppress(NotFoundError):
            done = await call(orchestrator.admin.ReplayDeadLetter, request)
            return done.job
    return None


@router.delete("", responses=problem_responses(404))
async def delete_job(job_id: JobId, deps: Deps) -> JobDeleted:
    """Deletes a job with its events and files; a running job is stopped first."""
    request = pb.DeleteJobRequest(job_id=job_id)
    done = await call(deps.orchestrator.pipeline.DeleteJob, request, STOP_SECONDS)
    return JobDeleted.of(done, job_id=job_id)
