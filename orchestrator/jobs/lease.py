"""Lease: one runner's right to write one attempt of a job. A lost lease writes nothing."""

import asyncio
from collections.abc import Callable

from mesh.bus import outlast
from mesh.correlation import new_id
from orchestrator.jobs.store import ConflictError, JobStore, VersionedJob
from ytcaption.v1 import job_pb2


class LostError(Exception):
    """Another runner has the job now, or the job is gone."""


class Lease:
    """Writes the record as long as this attempt owns it."""

    def __init__(self, jobs: JobStore, versioned: VersionedJob) -> None:
        self._jobs = jobs
        self._versioned = versioned
        self._turn = asyncio.Lock()
        self.runner_id = new_id()
        """Names this attempt's owner."""
        self.cancel_requested = asyncio.Event()

    @property
    def job(self) -> job_pb2.Job:
        """The job; change it, then save()."""
        return self._versioned.job

    async def take(
        self, *, next_attempt: bool = True, begin: Callable[[job_pb2.Job], None] | None = None
    ) -> None:
        """Takes the job, changed by `begin`; ConflictError if another runner was faster."""
        self._versioned.record.runner_id = self.runner_id
        self.job.attempt += next_attempt
        if begin is not None:
            begin(self.job)
        await self._jobs.save(self._versioned)
        self._notice_cancel()

    async def save(self) -> None:
        """Stores the job; LostError if this attempt no longer owns it."""
        async with self._turn:
            while True:
                try:
                    return await outlast(lambda: self._jobs.save(self._versioned))
                except ConflictError:
                    await self._reconcile()

    async def _reconcile(self) -> None:
        """After a conflicting write: a cancel request leaves the lease intact, all else ends it."""
        newest = await outlast(lambda: self._jobs.get(self.job.job_id))
        if newest.record.runner_id != self.runner_id or newest.job.attempt != self.job.attempt:
            raise LostError(self.job.job_id)
        self._versioned.revision = newest.revision
        self._versioned.record.cancel_requested = newest.record.cancel_requested
        self.job.cancel_note = newest.job.cancel_note
        self._notice_cancel()

    def _notice_cancel(self) -> None:
        if self._versioned.record.cancel_requested:
            self.cancel_requested.set()
