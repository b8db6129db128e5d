"""Stopping and forgetting jobs."""

import asyncio
from dataclasses import dataclass

from mesh.bus import Bus, storing
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from orchestrator.artifacts import Artifacts
from orchestrator.cache import cache_pointer
from orchestrator.ending import end_job, skip_open_stages
from orchestrator.feed import Feeds
from orchestrator.history import read_history
from orchestrator.jobs import TERMINAL, ConflictError, Jobs, Kept, UnreadableError
from orchestrator.lease import Lease, LostError
from orchestrator.queue import WorkQueue
from orchestrator.story import StoryReader, StoryWriter
from orchestrator.webhooks.queue import forget_webhooks
from ytcaption.v1 import job_pb2

STOP_SECONDS = 20.0
"""A dead runner's job is delivered again, and ended, within this time."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What a deleted job left behind."""

    events: int
    artifacts: int


class Control:
    """What callers may do to a job from outside."""

    def __init__(self, bus: Bus, jobs: Jobs, queue: WorkQueue, feeds: Feeds) -> None:
        self._bus = bus
        self._jobs = jobs
        self._queue = queue
        self._feeds = feeds

    async def cancel(self, job_id: str, note: str) -> job_pb2.Job:
        """Returns the job once it is terminal; text heard so far stays."""

        def ask(record: job_pb2.JobRecord) -> bool:
            if record.job.state in TERMINAL or record.cancel_requested:
                return False
            record.cancel_requested = True
            record.job.cancel_note = note[:500]
            return True

        kept = await self._jobs.change(job_id, ask)
        while not kept.terminal:
            if kept.job.state == job_pb2.JOB_STATE_QUEUED:
                await self._end_queued(kept)
            else:
                await self._stop_running(job_id)
            kept = await self._jobs.get(job_id)
        return kept.job

    async def _end_queued(self, kept: Kept) -> None:
        """Nobody runs it: ended here, unless a runner takes it this very moment."""
        lease = Lease(self._jobs, kept)
        history = await read_history(StoryReader(self._bus), kept.job.job_id)
        try:
            await lease.take(next_attempt=False)
            skip_open_stages(lease.job)
            story = StoryWriter(self._bus, lease.job, history.last_sequence)
            await end_job(self._bus, lease, story, job_pb2.JOB_STATE_CANCELLED)
        except (ConflictError, LostError):
            return
        await self._queue.withdraw(kept.job.job_id)

    async def _stop_running(self, job_id: str) -> None:
        await self._bus.client.publish(self._bus.names.cancel(job_id))
        try:
            async with asyncio.timeout(STOP_SECONDS), self._feeds.of(job_id) as feed:
                await feed.read_stored()
                async for _ in feed.watch(after=0):
                    pass
        except TimeoutError as error:
            raise UnavailableError(
                "the job's runner does not answer; it will be stopped when it does",
                reason=Reason.STAGE_UNAVAILABLE,
            ) from error

    async def delete(self, job_id: str) -> Removed:
        """Removes every trace; a running job is cancelled first."""
        try:
            await self.cancel(job_id, "deleted")
            record = (await self._jobs.get(job_id)).record
        except UnreadableError:  # nobody can run it
            record = job_pb2.JobRecord(job=job_pb2.Job(job_id=job_id))
        names = self._bus.names
        await self._queue.withdraw(job_id)
        artifacts = await Artifacts(self._bus).remove(record.job)
        if record.job.webhook_url:
            await forget_webhooks(self._bus, job_id)  # its story tells which
        events = await self._purge(names.events_stream, names.event(job_id, "*"))
        await self._purge(names.dead_letter_stream, names.dead_letter(job_id))
        if record.request_id:
            await self._jobs.forget(f"request.{record.request_id}")
        if record.cache_key:
            await self._forget_result(cache_pointer(record), job_id)
        await self._jobs.remove(job_id)
        return Removed(events=events, artifacts=artifacts)

    async def _forget_result(self, key: str, job_id: str) -> None:
        """Identical jobs must not look to one that is gone."""
        if (await self._jobs.pointer(key)).job_id == job_id:
            await self._jobs.forget(key)

    async def _purge(self, stream: str, subject: str) -> int:
        count = 0
        async for _ in self._bus.read(stream, subject):
            count += 1
        async with storing():
            await self._bus.jetstream.purge_stream(stream, subject=subject)
        return count
