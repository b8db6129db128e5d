"""Finds jobs that have not ended but are in no queue, and queues them again."""

from structlog import get_logger

from mesh.errors import LimitExceededError, NotFoundError
from orchestrator.index import JobIndex
from orchestrator.jobs import ACTIVE, Jobs
from orchestrator.paging import MAX_PAGE
from orchestrator.patrol import patrol
from orchestrator.queue import WorkQueue

log = get_logger(__name__)

EVERY_SECONDS = 30.0


class Rescue:
    """The net below everything else.

    A job's item is stored before its record, and taken out after the record says that it ended.
    But a request repeated after half a minute may count on the item of its first try at the very
    moment in which a runner drops that as half-made; and operators may purge the wrong stream.
    """

    def __init__(self, index: JobIndex, jobs: Jobs, queue: WorkQueue) -> None:
        self._index = index
        self._jobs = jobs
        self._queue = queue

    async def keep_looking(self) -> None:
        """Looks now and then until cancelled."""
        await patrol(self.look, EVERY_SECONDS, "lost jobs")

    async def look(self) -> None:
        """Looks once. Records first: whoever ends meanwhile is seen to have ended below."""
        unended = await self._unended()
        if not unended:
            return
        for job_id in unended - await self._queue.job_ids():
            await self._requeue(job_id)

    async def _unended(self) -> set[str]:
        found: set[str] = set()
        token = ""
        while True:
            page = await self._index.page(MAX_PAGE, token, ACTIVE)
            found.update(job.job_id for job in page.jobs)
            token = page.next_token
            if not token:
                return found

    async def _requeue(self, job_id: str) -> None:
        try:
            kept = await self._jobs.get(job_id)
            if kept.terminal:
                return
            await self._queue.put(kept.job)
        except (NotFoundError, LimitExceededError):  # deleted; or another replica was faster
            return
        log.warning("a job was in no queue; queued again", job_id=job_id)
