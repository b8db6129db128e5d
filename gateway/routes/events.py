"""Following a job live."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.responses import Response, StreamingResponse

from gateway import telling
from gateway.face import Face, FaceOf
from gateway.observing import STREAMS_OPEN
from gateway.problems import RefusedError, described
from gateway.routes.jobs import JobId
from gateway.stories import Story
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from ytcaption.v1 import job_pb2

router = APIRouter(tags=["jobs"])

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MEDIA_TYPE = "text/event-stream"
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events, until the job has ended.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    },
    204: {"description": "There is nothing more: stop asking."},
}
Place = Annotated[int | None, Query(ge=0, lt=2**63)]


@router.get("/jobs/{job_id}/events", responses=RESPONSES | described(404), response_class=Response)
async def follow_job(
    job_id: JobId,
    face: FaceOf,
    last_event_id: Annotated[str | None, Header()] = None,
    after: Annotated[
        Place, Query(alias="last_event_id", description="As the header, which comes first.")
    ] = None,
) -> Response:
    """The story of a job from its beginning, or after the last event the client had; then live."""
    place = _place(last_event_id)
    place = (after or 0) if place is None else place
    job = await _job(face, job_id, resuming=bool(place))
    if len(face.stories) >= face.settings.max_streams:
        raise RefusedError(503, "too many event streams are open", reason=Reason.STAGE_UNAVAILABLE)
    story = Story(face.orchestrator, face.endings, job_id, place)
    if place and job is not None and job.state in telling.TERMINAL and not await story.has_more():
        return Response(status_code=204)
    return StreamingResponse(_counted(face, story), media_type=MEDIA_TYPE, headers=HEADERS)


def _place(header: str | None) -> int | None:
    if header is None:
        return None
    if not (header.isascii() and header.isdecimal() and len(header) < 19):
        raise RefusedError(400, "Last-Event-ID is not one of ours", field="Last-Event-ID")
    return int(header)


async def _job(face: Face, job_id: str, *, resuming: bool) -> job_pb2.Job | None:
    """None if that cannot be known now; a client that was here before is let wait for it.

    A browser takes an error for the end, and would never come back.
    """
    try:
        return await face.orchestrator.job(job_id)
    except UnavailableError:
        if resuming:
            return None
        raise


async def _counted(face: Face, story: Story) -> AsyncIterator[bytes]:
    face.stories.add(story)
    STREAMS_OPEN.set(len(face.stories))
    try:
        async with aclosing(story.told()) as told:
            async for piece in told:
                yield piece
    finally:
        face.stories.discard(story)
        STREAMS_OPEN.set(len(face.stories))
