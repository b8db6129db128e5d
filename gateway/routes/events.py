"""Following a job live."""

from fastapi import APIRouter
from starlette.responses import Response

from gateway import telling
from gateway.face import Face, FaceOf
from gateway.job_stories import JobStory
from gateway.problems import described
from gateway.routes.jobs import JobId
from gateway.streams import (
    NOTHING_MORE,
    After,
    LastEventId,
    check_room,
    described_stream,
    place_of,
    streamed,
)
from mesh.errors import UnavailableError
from ytcaption.v1 import job_pb2

router = APIRouter(tags=["jobs"])


@router.get(
    "/jobs/{job_id}/events",
    responses=described_stream("the job has ended") | NOTHING_MORE | described(404),
    response_class=Response,
)
async def follow_job(
    job_id: JobId, face: FaceOf, last_event_id: LastEventId = None, after: After = None
) -> Response:
    """The story of a job from its beginning, or after the last event the client had; then live."""
    place = place_of(last_event_id, after)
    job = await _job(face, job_id, resuming=bool(place))
    check_room(face.stories, face.settings.max_streams)
    story = JobStory(face.orchestrator, face.endings, job_id, place)
    if place and job is not None and job.state in telling.TERMINAL and not await story.has_more():
        return Response(status_code=204)
    return streamed(face.stories, story)


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
