"""Looking at a job, and ending it."""

import asyncio
from contextlib import suppress
from time import time
from typing import Annotated

from fastapi import APIRouter, Path, Query

from gateway import heard, telling
from gateway.backend import Orchestrator
from gateway.face import FaceOf
from gateway.problems import described
from gateway.shapes import Deleted, Detail, Summary
from mesh.correlation import current, new_id
from mesh.errors import NotFoundError
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter(tags=["jobs"])

ENDING_SECONDS = 60.0
"""A stage that is killed for it takes a moment."""

FRESH_SECONDS = 10.0
LETTER_PAUSES = (0.0, 0.1, 0.3, 1.0)

JobId = Annotated[str, Path(max_length=64, examples=["01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11"])]


@router.get("/jobs/{job_id}", responses=described(404))
async def get_job(job_id: JobId, face: FaceOf) -> Detail:
    """Everything about a job, with the text heard so far."""
    job = await face.orchestrator.job(job_id)
    told = telling.detail(job)
    await heard.add_text(face.orchestrator, job, told)
    return told


@router.post("/jobs/{job_id}/cancel", responses=described(404))
async def cancel_job(
    job_id: JobId, face: FaceOf, note: Annotated[str, Query(max_length=1000)] = ""
) -> Detail:
    """Stops a job; text heard so far stays. One that has ended is returned as it is."""
    orchestrator = face.orchestrator
    request = pb.CancelJobRequest(job_id=job_id, note=note)
    done = await orchestrator.ask(orchestrator.pipeline.CancelJob, request, ENDING_SECONDS)
    told = telling.detail(done.job)
    await heard.add_text(orchestrator, done.job, told)
    return told


@router.post("/jobs/{job_id}/retry", status_code=202, responses=described(404, 409, 507))
async def retry_job(job_id: JobId, face: FaceOf) -> Summary:
    """Another life for a job that failed, under its id; for any other that ended, a new job."""
    orchestrator = face.orchestrator
    job = await orchestrator.job(job_id)
    if job.state == job_pb2.JOB_STATE_FAILED:
        replayed = await _replayed(orchestrator, job)
        if replayed is not None:
            return telling.summary(replayed)
    request = pb.RepeatJobRequest(job_id=job_id, request_id=new_id(), correlation_id=current())
    repeated = await orchestrator.ask(orchestrator.pipeline.RepeatJob, request, ENDING_SECONDS)
    return telling.summary(repeated.job)


async def _replayed(orchestrator: Orchestrator, job: job_pb2.Job) -> job_pb2.Job | None:
    """None if its letter was purged. A job that failed just now gets its letter in a moment."""
    request = admin_pb.ReplayDeadLetterRequest(job_id=job.job_id)
    fresh = time() - job.end_time.seconds < FRESH_SECONDS
    for pause in LETTER_PAUSES if fresh else (0.0,):
        await asyncio.sleep(pause)
        with suppress(NotFoundError):
            done = await orchestrator.ask(orchestrator.admin.ReplayDeadLetter, request)
            return done.job
    return None


@router.delete("/jobs/{job_id}", responses=described(404))
async def delete_job(job_id: JobId, face: FaceOf) -> Deleted:
    """Removes every trace of a job; one that runs is stopped first."""
    orchestrator = face.orchestrator
    request = pb.DeleteJobRequest(job_id=job_id)
    done = await orchestrator.ask(orchestrator.pipeline.DeleteJob, request, ENDING_SECONDS)
    return Deleted(
        job_id=job_id,
        events_removed=done.events_removed,
        artifacts_removed=done.artifacts_removed,
    )
