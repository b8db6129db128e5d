"""What will not be tried again."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from gateway import telling
from gateway.backend import REMOVING_SECONDS, Orchestrator
from gateway.face import FaceOf
from gateway.mesh_shapes import Letter, LetterList, LetterSent, LettersRemoved
from gateway.paging import Limit, PageToken
from gateway.problems import described
from gateway.routes.jobs import JobId
from gateway.shapes import Summary
from mesh.errors import MeshError, NotFoundError
from mesh.reasons import Reason
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2

router = APIRouter(tags=["dead letters"])

CENTURY_HOURS = 876_000
KINDS: dict[int, Literal["job", "event", "webhook"]] = {
    job_pb2.LETTER_KIND_JOB: "job",
    job_pb2.LETTER_KIND_EVENT: "event",
    job_pb2.LETTER_KIND_WEBHOOK: "webhook",
}
ReasonWord = Annotated[str, Query(max_length=64)]


@router.get("/dead-letters", responses=described())
async def list_letters(
    face: FaceOf,
    limit: Limit = 50,
    page_token: PageToken = "",
    reason: ReasonWord = "",
) -> LetterList:
    """Lists dead letters, newest first."""
    orchestrator = face.orchestrator
    request = pb.ListDeadLettersRequest(page_size=limit, page_token=page_token, reason=reason)
    page = await orchestrator.ask(orchestrator.admin.ListDeadLetters, request)
    counted = await orchestrator.ask(
        orchestrator.admin.PurgeDeadLetters,
        pb.PurgeDeadLettersRequest(reason=reason, dry_run=True),
    )
    letters = await asyncio.gather(*(_letter(orchestrator, one) for one in page.dead_letters))
    return LetterList(
        total=counted.dead_letters_removed,
        next_page_token=page.next_page_token,
        dead_letters=letters,
    )


async def _letter(orchestrator: Orchestrator, letter: job_pb2.DeadLetter) -> Letter:
    job = await _job_of(orchestrator, letter)
    failure = letter.failure
    return Letter(
        letter_id=letter.letter_id or letter.job_id,
        kind=KINDS.get(letter.kind, "job"),
        job_id=letter.job_id,
        collection_id=letter.collection_id,
        correlation_id=letter.correlation_id,
        subject=letter.subject,
        reason=failure.reason,
        message=failure.message,
        stage=telling.STAGES.get(failure.stage),
        attempts=letter.attempts,
        failed_at=telling.moment(letter.dead_time) or datetime.fromtimestamp(0, UTC),
        title=job.media.title,
        youtube_url=job.source.url,
        file_name=job.source.upload.file_name,
        retryable=failure.retryable,
    )


async def _job_of(orchestrator: Orchestrator, letter: job_pb2.DeadLetter) -> job_pb2.Job:
    if letter.job_id:
        with suppress(MeshError):  # gone or unreadable: the letter is all there is
            return await orchestrator.job(letter.job_id)
    return job_pb2.Job()


@router.post("/dead-letters/{letter_id}/replay", status_code=202, responses=described(404, 409))
async def replay_letter(letter_id: JobId, face: FaceOf) -> Summary | LetterSent:
    """Gives a dead job another life under the same id; sends an event or a webhook again."""
    request = pb.ReplayDeadLetterRequest(job_id=letter_id)
    done = await face.orchestrator.ask(face.orchestrator.admin.ReplayDeadLetter, request)
    if done.HasField("job"):
        return telling.summary(done.job)
    return LetterSent(letter_id=letter_id)


@router.delete("/dead-letters/{letter_id}", responses=described(404))
async def remove_letter(letter_id: JobId, face: FaceOf) -> LettersRemoved:
    """Removes one letter; if a job died, it stays failed."""
    request = pb.PurgeDeadLettersRequest(job_id=letter_id)
    done = await face.orchestrator.ask(face.orchestrator.admin.PurgeDeadLetters, request)
    if not done.dead_letters_removed:
        raise NotFoundError(
            f"there is no dead letter of {letter_id}", reason=Reason.DEAD_LETTER_NOT_FOUND
        )
    return LettersRemoved(dead_letters_removed=done.dead_letters_removed, dry_run=False)


@router.delete("/dead-letters", responses=described())
async def remove_letters(
    face: FaceOf,
    older_than_hours: Annotated[
        float | None, Query(ge=0, le=CENTURY_HOURS, allow_inf_nan=False)
    ] = None,
    reason: ReasonWord = "",
    dry_run: bool = False,
) -> LettersRemoved:
    """Removes all letters that match; without conditions, all."""
    request = pb.PurgeDeadLettersRequest(reason=reason, dry_run=dry_run)
    if older_than_hours is not None:
        request.before.FromDatetime(datetime.now(UTC) - timedelta(hours=older_than_hours))
    admin = face.orchestrator.admin
    done = await face.orchestrator.ask(admin.PurgeDeadLetters, request, REMOVING_SECONDS)
    return LettersRemoved(dead_letters_removed=done.dead_letters_removed, dry_run=dry_run)
