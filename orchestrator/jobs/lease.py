"""One runner's hold on one attempt of a job: once lost, nothing can be changed through it."""

import asyncio

from mesh.bus import outlast
from mesh.correlation import new_id
from orchestrator.jobs import ConflictError, Jobs, Kept
from ytcaption.v1 import job_pb2


class LostError(Exception):
    """Another attempt has the job now, or the job is gone."""


class Lease:
    """Writes the record as long as this attempt owns it."""

    def __init__(self, jobs: Jobs, kept: Kept) -> None:
        self._jobs = jobs
        self._kept = kept
        self._turn = asyncio.Lock()
        self._runner_id = new_id()
        self.cancel_requested = asyncio.Event()

    @property
    def job(self) -> job_pb2.Job:
        """The job; change it, then save()."""
        return self._kept.job

    @property
    def runner_id(self) -> str:
        """Names this attempt's owner."""
        return self._runner_id

    async def take(self, *, next_attempt: bool = True) -> None:
        """Makes the job ours; ConflictError if somebody was faster."""
        self._kept.record.runner_id = self._runner_id
        self.job.attempt += next_attempt
        await self._jobs.save(self._kept)
        self._notice_cancel()

    async def save(self) -> None:
        """Stores the job; LostError if this attempt no longer owns it."""
        async with self._turn:
            while True:
                try:
                    return await outlast(lambda: self._jobs.save(self._kept))
                except ConflictError:
                    await self._reconcile()

    async def _reconcile(self) -> None:
        """Somebody wrote the record: a cancel request leaves us the job, all else takes it."""
        newest = await outlast(lambda: self._jobs.get(self.job.job_id))
        if newest.record.runner_id != self._runner_id or newest.job.attempt != self.job.attempt:
            raise LostError(self.job.job_id)
        self._kept.revision = newest.revision
        self._kept.record.cancel_requested = newest.record.cancel_requested
        self.job.cancel_note = newest.job.cancel_note
        self._notice_cancel()

    def _notice_cancel(self) -> None:
        if self._kept.record.cancel_requested:
            self.cancel_requested.set()
