"""Ends jobs that the broker will not deliver any more: the net below every other count.

Whatever makes a runner fail before it can count an attempt (a record or a story nobody can read, a
fault of ours) would go on for ever. The broker counts deliveries itself. When it has had enough it
leaves the item where it is and says so once; a stream keeps what it says until one of us acted.
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

from mesh.bus import Bus, storing
from mesh.errors import NotFoundError
from mesh.reasons import Reason
from orchestrator.deadletters import DeadLetters
from orchestrator.ending import end_job, skip_open_stages, tell_end
from orchestrator.history import History, read_history
from orchestrator.jobs import ConflictError, Jobs, Kept, UnreadableError
from orchestrator.lease import Lease, LostError
from orchestrator.patrol import patrol
from orchestrator.story import StoryReader, StoryWriter
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

EVERY_SECONDS = 5.0


class Backstop:
    """Safe to run in every replica at once: one of them wins each job."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._jobs = Jobs(bus)
        self._letters = DeadLetters(bus)

    async def keep_looking(self) -> None:
        """Looks now and then until cancelled."""
        await patrol(self.look, EVERY_SECONDS, "jobs delivered too often")

    async def look(self) -> None:
        """Acts on everything the broker has said."""
        names = self._bus.names
        async for stored in self._bus.read(names.exhausted_stream, names.exhausted()):
            try:
                await self._act_on(int(json.loads(stored.data)["stream_seq"]))
            except (ConflictError, LostError):  # somebody else is at it; we look again
                continue
            await self._remove(names.exhausted_stream, stored.sequence)

    async def _act_on(self, sequence: int) -> None:
        stream = self._bus.names.work_stream
        try:
            async with storing():
                item = await self._bus.jetstream.get_msg(stream, sequence)
        except NoMessageError:  # the job has ended since
            return
        job_id = str(item.subject).rpartition(".")[2]
        with bound_contextvars(job_id=job_id), suppress(NotFoundError):
            log.error("delivered too often; the job is given up")
            await self._give_up(job_id, item)
        await self._remove(stream, sequence)

    async def _remove(self, stream: str, sequence: int) -> None:
        async with storing():
            try:
                await self._bus.jetstream.delete_msg(stream, sequence)
            except APIError as error:
                if "no message found" not in str(error.description):
                    raise  # else another replica was faster

    async def _give_up(self, job_id: str, item: RawStreamMsg) -> None:
        try:
            kept = await self._jobs.get(job_id)
        except UnreadableError:
            await self._letters.bury(_all_we_know(job_id, item))
            return
        try:
            history = await read_history(StoryReader(self._bus), job_id)
        except DecodeError:
            history = None
        if not kept.terminal:
            await self._end(kept, history)
        elif history is not None and not history.finished:
            story = StoryWriter(self._bus, kept.job, history.last_sequence)
            await tell_end(self._bus, kept.job, story, result_told=history.result_told)

    async def _end(self, kept: Kept, history: History | None) -> None:
        lease = Lease(self._jobs, kept)
        # An attempt of its own: a letter is told from that of another death by its number.
        await lease.take()
        job = lease.job
        skip_open_stages(job)
        state = job_pb2.JOB_STATE_CANCELLED
        if not kept.record.cancel_requested:
            state = job_pb2.JOB_STATE_FAILED
            job.failure.CopyFrom(_failure(job.attempt))
        if history is not None:
            story = StoryWriter(self._bus, job, history.last_sequence)
            await end_job(self._bus, lease, story, state)
            return
        job.state = state  # nobody can read its story: it ends without a last word
        job.end_time.CopyFrom(from_current_time())
        await lease.save()
        if state == job_pb2.JOB_STATE_FAILED:
            await self._letters.bury(job)


def _failure(attempt: int) -> job_pb2.Failure:
    return job_pb2.Failure(
        reason=Reason.DELIVERIES_EXHAUSTED,
        message="runners were given the job again and again, and none could deal with it",
        retryable=False,
        attempt=attempt,
    )


def _all_we_know(job_id: str, item: RawStreamMsg) -> job_pb2.Job:
    """What the item says of a job whose record nobody can read."""
    job = job_pb2.Job(job_id=job_id, failure=_failure(0), end_time=from_current_time())
    with suppress(DecodeError):
        known = job_pb2.WorkItem.FromString(item.data or b"")
        job.correlation_id = known.correlation_id
        job.create_time.CopyFrom(known.enqueue_time)
    return job
