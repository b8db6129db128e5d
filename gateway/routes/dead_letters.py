"""Dead letters: jobs, events and webhooks that are not retried any more."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from gateway.client import DELETION_SECONDS, Orchestrator, call
from gateway.deps import Deps
from gateway.http.parameters import LetterId, Page
from gateway.http.problems import problem_responses
from gateway.presenters import jobs as present
from gateway.schemas.jobs import JobSummary
from gateway.schemas.mesh import (
    MAX_AGE_HOURS,
    DeadLetter,
    DeadLetterList,
    DeadLetterSent,
    DeadLettersRemoved,
    LetterKind,
)
from mesh.errors import MeshError, NotFoundError
from mesh.reasons import Reason
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2

router = APIRouter(prefix="/dead-letters", tags=["dead letters"])

ReasonFilter = Annotated[str, Query(max_length=64)]
KINDS: dict[int, LetterKind] = {
    job_pb2.LETTER_KIND_JOB: "job",
    job_pb2.LETTER_KIND_EVENT: "event",
    job_pb2.LETTER_KIND_WEBHOOK: "webhook",
    job_pb2.LETTER_KIND_TASK: "task",
}


@router.get("", responses=problem_responses())
async def list_dead_letters(deps: Deps, page: Page, reason: ReasonFilter = "") -> DeadLetterList:
    """Lists dead letters, newest first."""
    request = pb.ListDeadLettersRequest(**page, reason=reason, count=True)
    found = await call(deps.orchestrator.admin.ListDeadLetters, request)
    letters = await asyncio.gather(
        *(_dead_letter(deps.orchestrator, one) for one in found.dead_letters)
    )
    return DeadLetterList(
        total=found.total_size,
        next_page_token=found.next_page_token,
        dead_letters=letters,
    )


async def _dead_letter(orchestrator: Orchestrator, letter: job_pb2.DeadLetter) -> DeadLetter:
    """Presents a dead letter, with the source of its job if it has one."""
    job = job_pb2.Job()
    if letter.job_id:
        with suppress(MeshError):  # deleted or unreadable: the letter alone is presented
            job = await orchestrator.job(letter.job_id)
    failure = letter.failure
    return DeadLetter.of(
        letter,
        letter_id=letter.letter_id or letter.job_id,
        kind=KINDS.get(letter.kind, "job"),
        reason=failure.reason,
        message=failure.message,
        stage=present.STAGES.get(failure.stage),
        failed_at=present.timestamp(letter.dead_time) or present.EPOCH,
        title=job.media.title,
        youtube_url=job.source.url,
        file_name=job.source.upload.file_name,
        retryable=failure.retryable,
    )


@router.post("/{letter_id}/replay", status_code=202, responses=problem_responses(404, 409))
async def replay_dead_letter(letter_id: LetterId, deps: Deps) -> JobSummary | DeadLetterSent:
    """Runs a dead job or task again under its id, or sends an event or a webhook again."""
    request = pb.ReplayDeadLetterRequest(job_id=letter_id)
    done = await call(deps.orchestrator.admin.ReplayDeadLetter, request)
    if done.HasField("job"):
        return present.summary(done.job)
    return DeadLetterSent(letter_id=letter_id)


@router.delete("/{letter_id}", responses=problem_responses(404))
async def delete_dead_letter(letter_id: LetterId, deps: Deps) -> DeadLettersRemoved:
    """Deletes one dead letter; its job stays failed."""
    request = pb.PurgeDeadLettersRequest(job_id=letter_id)
    done = await call(deps.orchestrator.admin.PurgeDeadLetters, request)
    if not done.dead_letters_removed:
        raise NotFoundError(
            f"there is no dead letter {letter_id}", reason=Reason.DEAD_LETTER_NOT_FOUND
        )
    return DeadLettersRemoved(dead_letters_removed=done.dead_letters_removed, dry_run=False)


@router.delete("", responses=problem_responses())
async def purge_dead_letters(
    deps: Deps,
    older_than_hours: Annotated[
        float | None, Query(ge=0, le=MAX_AGE_HOURS, allow_inf_nan=False)
    ] = None,
    reason: ReasonFilter = "",
    dry_run: bool = False,
) -> DeadLettersRemoved:
    """Deletes all dead letters that match; without conditions, all of them."""
    request = pb.PurgeDeadLettersRequest(reason=reason, dry_run=dry_run)
    if older_than_hours is not None:
        request.before.FromDatetime(datetime.now(UTC) - timedelta(hours=older_than_hours))
    done = await call(deps.orchestrator.admin.PurgeDeadLetters, request, DELETION_SECONDS)
    return DeadLettersRemoved(dead_letters_removed=done.dead_letters_removed, dry_run=dry_run)
