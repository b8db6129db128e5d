"""Reconciler: re-enqueues unfinished jobs and collections that have no work item."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from structlog import get_logger

from mesh.errors import NotFoundError
from orchestrator.jobs.store import JobStore
from orchestrator.maintenance.housekeeper import run_periodically
from orchestrator.queue.work_queue import WorkQueue

log = get_logger(__name__)

EVERY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Reconciler:
    """The safety net below submission and workers, for jobs or for collections.

    An item is stored before its record, and removed after the record says that it ended. But a
    request repeated after half a minute may rely on the item of its first try at the very moment a
    worker drops that one as never accepted; and operators may purge the wrong stream.
    """

    what: str
    unfinished: Callable[[], Awaitable[set[str]]]
    queued: Callable[[], Awaitable[set[str]]]
    enqueue: Callable[[str], Awaitable[bool]]

    async def run(self) -> None:
        """Looks every half minute until cancelled."""
        await run_periodically(self.look, EVERY_SECONDS, f"lost {self.what}s")

    async def look(self) -> None:
        """Looks once. Records first: an item is removed only after its record has ended."""
        unfinished = await self.unfinished()
        if unfinished:
            for id_ in unfinished - await self.queued():
                if await self.enqueue(id_):
                    log.warning("re-enqueued: it had no work item", what=self.what, id=id_)


async def enqueue_job(jobs: JobStore, queue: WorkQueue, job_id: str) -> bool:
    """Puts the job's work item, unless it has ended, was deleted or has one by now."""
    try:
        versioned = await jobs.get(job_id)
    except NotFoundError:
        return False
    return not versioned.terminal and await queue.put(versioned.job)
