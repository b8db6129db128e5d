"""Poison items: ends jobs whose work item the broker will not deliver any more.

A fault before a runner can count an attempt (an unreadable record or event log, a bug) would repeat
for ever. The broker counts deliveries itself: after max_deliveries it leaves the item in the stream
and publishes one advisory, which a stream keeps until one of the replicas has acted on it.
"""

import json
from contextlib import suppress

from google.protobuf.message import DecodeError
from google.protobuf.timestamp import from_current_time
from nats.js.api import RawStreamMsg
from nats.js.errors import APIError
from nats.js.errors import NotFoundError as NoMessageError
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import storing
from mesh.errors import InternalError, NotFoundError
from mesh.reasons import Reason
from orchestrator.jobs.completion import complete_event_log, end_job, end_record
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.lease import Lease, LostError
from orchestrator.jobs.resume_state import ResumeState, read_resume_state
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import ConflictError, UnreadableError, VersionedJob
from orchestrator.maintenance.housekeeper import run_periodically
from orchestrator.pipeline.stages import failure_of
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

INTERVAL_SECONDS = 5.0


class PoisonItems:
    """Safe to run in every replica at once: compare-and-set lets one win each job."""

    def __init__(self, storage: JobStorage) -> None:
        self._storage = storage
        self._bus = storage.bus

    async def run(self) -> None:
        """Runs until cancelled."""
        await run_periodically(self.check, INTERVAL_SECONDS, "poison items")

    async def check(self) -> None:
        """Acts on every stored advisory."""
        names = self._bus.names
        async for stored in self._bus.read(names.exhausted_stream, names.exhausted()):
            try:
                await self._act_on(int(json.loads(stored.data)["stream_seq"]))
            except (ConflictError, LostError):  # another replica acts on it; check again next time
                continue
            await self._remove(names.exhausted_stream, stored.sequence)

    async def _act_on(self, sequence: int) -> None:
        stream = self._bus.names.work_stream
        try:
            async with storing():
                item = await self._bus.jetstream.get_msg(stream, sequence)
        except NoMessageError:  # the job has ended meanwhile
            return
        job_id = str(item.subject).rpartition(".")[2]
        with bound_contextvars(job_id=job_id), suppress(NotFoundError):
            log.error("max deliveries exceeded; the job fails")
            await self._end_job(job_id, item)
        await self._remove(stream, sequence)

    async def _remove(self, stream: str, sequence: int) -> None:
        async with storing():
            try:
                await self._bus.jetstream.delete_msg(stream, sequence)
            except APIError as error:
                if "no message found" not in str(error.description):
                    raise  # else another replica removed it first

    async def _end_job(self, job_id: str, item: RawStreamMsg) -> None:
        try:
            current = await self._storage.jobs.get(job_id)
        except UnreadableError:
            await self._storage.dead_letters.add_job(_job_of_item(job_id, item))
            return
        try:
            resume_state = await read_resume_state(self._storage.event_logs, job_id)
        except DecodeError:
            resume_state = None
        if not current.terminal:
            await self._end(current, resume_state)
        elif resume_state is not None:
            await complete_event_log(self._storage, current.job, resume_state)

    async def _end(self, current: VersionedJob, resume_state: ResumeState | None) -> None:
        lease = Lease(self._storage.jobs, current)
        # Counts as an attempt: the attempt number tells dead letters of one job apart.
        await lease.take()
        job = lease.job
        state = job_pb2.JOB_STATE_CANCELLED
        if not current.record.cancel_requested:
            state = job_pb2.JOB_STATE_FAILED
            job.failure.CopyFrom(_failure(job.attempt))
        if resume_state is not None:
            event_log = EventLogWriter(self._bus, job, resume_state.last_sequence)
            await end_job(self._storage, lease, event_log, state)
            return
        await end_record(lease, state)  # an unreadable event log gets no final event
        if state == job_pb2.JOB_STATE_FAILED:
            await self._storage.dead_letters.add_job(job)


def _failure(attempt: int) -> job_pb2.Failure:
    message = "the job was delivered too often without an attempt that ended"
    error = InternalError(message, reason=Reason.DELIVERIES_EXHAUSTED)
    return failure_of(error, attempt=attempt)


def _job_of_item(job_id: str, item: RawStreamMsg) -> job_pb2.Job:
    """What the work item says of a job whose record is unreadable."""
    job = job_pb2.Job(job_id=job_id, failure=_failure(0), end_time=from_current_time())
    with suppress(DecodeError):
        item_ = job_pb2.WorkItem.FromString(item.data or b"")
        job.correlation_id = item_.correlation_id
        job.create_time.CopyFrom(item_.enqueue_time)
    return job
