"""A new job like one that has ended."""

from pathlib import Path

from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from orchestrator.artifacts import UPLOAD, Artifacts
from orchestrator.jobs import TERMINAL, Jobs
from orchestrator.options import Turn
from orchestrator.room import Room
from orchestrator.submission import Submission, Wish
from ytcaption.v1 import job_pb2


class Repetition:
    """Runs the same source with the same options once more; the old job stays as it is."""

    def __init__(
        self, jobs: Jobs, artifacts: Artifacts, submission: Submission, room: Room, work_dir: Path
    ) -> None:
        self._jobs = jobs
        self._artifacts = artifacts
        self._submission = submission
        self._room = room
        self._work_dir = work_dir

    async def repeat(
        self, job_id: str, request_id: str, correlation_id: str, webhook_url: str = ""
    ) -> job_pb2.Job:
        """The new job, durable; raises if the old one is under way or its file is gone."""
        old = (await self._jobs.get(job_id)).job
        if old.state not in TERMINAL:
            raise SourceRefusedError(
                f"job {job_id} has not ended; it cannot be run anew yet",
                reason=Reason.JOB_NOT_ENDED,
            )
        ticket = await self._submission.ticket(request_id)
        if ticket.accepted:
            return ticket.accepted
        if old.source.HasField("upload"):
            await self._room.check_upload(old.source.upload.size_bytes)
            await self._artifacts.copy(job_id, ticket.job_id, UPLOAD, self._work_dir)
        else:
            await self._room.check()
        turn = Turn(old.caller, old.priority)
        wish = Wish(old.source, old.options, turn, correlation_id, True, webhook_url)
        return await self._submission.accept(ticket, wish)
