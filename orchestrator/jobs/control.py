"""Cancels and deletes jobs."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Self

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from mesh.watching import TERMINAL
from orchestrator.jobs.completion import end_job
from orchestrator.jobs.dedup import dedup_pointer
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.lease import Lease, LostError
from orchestrator.jobs.resume_state import read_resume_state
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import ConflictError, UnreadableError, VersionedJob
from orchestrator.queue.work_queue import WorkQueue
from ytcaption.v1 import job_pb2

STOP_SECONDS = 20.0
"""A dead runner's job is delivered again, and ended, within this time."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What a removal removed, or a dry run would: counts and bytes, which add up."""

    jobs: int = 0
    collections: int = 0
    events: int = 0
    files: int = 0
    work_items: int = 0
    size: int = 0
    """Bytes."""

    def __add__(self, other: Self) -> Self:
        """Adds the counts of both."""
        return type(self)(
            *(getattr(self, one.name) + getattr(other, one.name) for one in fields(self))
        )


@dataclass(frozen=True, slots=True)
class JobControl:
    """Cancels and deletes jobs on behalf of callers."""

    storage: JobStorage
    queue: WorkQueue
    until_ended: Callable[[str], Awaitable[None]]
    """Waits until the event log of a job has its end."""
    forget_webhooks: Callable[[job_pb2.Job], Awaitable[None]]
    """Removes the webhooks of a job; called before its event log goes, which names them."""
    keep_audio: Callable[[job_pb2.Job], Awaitable[None]]
    """Counts the audio of a job that is deleted for its owner's quota; harmless if repeated."""

    async def cancel(self, job_id: str, note: str) -> job_pb2.Job:
        """Returns the job once it is terminal; segments settled so far stay."""

        def ask(record: job_pb2.JobRecord) -> bool:
            if record.job.state in TERMINAL or record.cancel_requested:
                return False
            record.cancel_requested = True
            record.job.cancel_note = note[:500]
            return True

        versioned = await self.storage.jobs.change(job_id, ask)
        while not versioned.terminal:
            if versioned.job.state == job_pb2.JOB_STATE_QUEUED:
                await self._end_queued(versioned)
            else:
                await self._stop_running(job_id)
            versioned = await self.storage.jobs.get(job_id)
        return versioned.job

    async def _end_queued(self, versioned: VersionedJob) -> None:
        """Ends a job no runner has, unless a runner takes it meanwhile."""
        lease = Lease(self.storage.jobs, versioned)
        resume_state = await read_resume_state(self.storage.event_logs, versioned.job.job_id)
        try:
            await lease.take(next_attempt=False)
            event_log = EventLogWriter(self.storage.bus, lease.job, resume_state.last_sequence)
            await end_job(self.storage, lease, event_log, job_pb2.JOB_STATE_CANCELLED)
        except (ConflictError, LostError):
            return
        await self.queue.withdraw(versioned.job.job_id)

    async def _stop_running(self, job_id: str) -> None:
        bus = self.storage.bus
        await bus.client.publish(bus.names.cancel(job_id))
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.until_ended(job_id)
        except TimeoutError as error:
            raise UnavailableError(
                "the job's runner does not answer; it will be stopped when it does",
                reason=Reason.STAGE_UNAVAILABLE,
            ) from error

    async def delete(self, job_id: str) -> Removed:
        """Removes everything stored of the job; a running job is cancelled first."""
        try:
            await self.cancel(job_id, "deleted")
            record = (await self.storage.jobs.get(job_id)).record
        except UnreadableError:  # no runner can run it
            record = job_pb2.JobRecord(job=job_pb2.Job(job_id=job_id))
        bus, names = self.storage.bus, self.storage.bus.names
        await self.queue.withdraw(job_id)
        files = await self.storage.artifacts.remove(record.job)
        await self.forget_webhooks(record.job)
        event_log = names.events_stream, names.event(job_id, "*")
        events = len([stored.sequence async for stored in bus.read(*event_log)])
        await bus.purge(*event_log)
        await bus.purge(names.dead_letter_stream, names.dead_letter(job_id))
        await self.keep_audio(record.job)
        await self.storage.jobs.release(record.request_id)
        dedup = dedup_pointer(record)
        # Identical jobs must not wait for a job that is gone.
        if record.cache_key and (await self.storage.jobs.pointer(dedup)).id == job_id:
            await self.storage.jobs.remove_pointer(dedup)
        await self.storage.jobs.remove(job_id)
        return Removed(jobs=1, events=events, files=files)
