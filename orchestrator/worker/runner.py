"""Takes work items from the queue and runs each job to its end or to its next attempt."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from datetime import UTC
from functools import partial

from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import outlast
from mesh.errors import MeshError, NotFoundError
from mesh.slots import Slot
from mesh.tasks import side_by_side
from orchestrator.jobs.artifacts import SOURCE
from orchestrator.jobs.completion import complete_event_log
from orchestrator.jobs.dedup import Dedup
from orchestrator.jobs.event_log import open_event_log
from orchestrator.jobs.lease import Lease, LostError
from orchestrator.jobs.replay import Replays
from orchestrator.jobs.resume_state import ResumeState, read_resume_state
from orchestrator.jobs.storage import PATIENCE_SECONDS, JobStorage
from orchestrator.jobs.store import ACTIVE, ConflictError, VersionedJob
from orchestrator.pipeline.pipeline import Pipeline
from orchestrator.queue.consumers import give_back, handle_delivery, keep_alive, wait_for_record
from orchestrator.queue.dispatcher import Dispatcher
from orchestrator.queue.work_queue import WorkQueue, id_of_subject, replay_of_item
from orchestrator.quotas.quotas import Quotas
from orchestrator.settings import Settings
from orchestrator.worker.attempt import Attempt, begin
from orchestrator.worker.blocked import QUOTA_BACKOFF, REQUEUE_BACKOFF, Blocked, BlockedJobs
from orchestrator.worker.readiness import Readiness
from orchestrator.worker.retry import Backoff
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

LONGEST_REDELIVERY_SECONDS = 30.0
_RENEW = -1.0
"""In place of the seconds until the next delivery: the item is to be stored anew."""


class Runner:
    """Runs several jobs at once, one in each slot."""

    def __init__(  # noqa: PLR0913 # everything a job needs
        self,
        storage: JobStorage,
        settings: Settings,
        queue: WorkQueue,
        pipeline: Pipeline,
        readiness: Readiness,
        dedup: Dedup,
        replays: Replays,
        quotas: Quotas,
    ) -> None:
        self._quotas = quotas
        self._dedup = dedup
        self._readiness = readiness
        self._storage = storage
        self._bus = storage.bus
        self._settings = settings
        self._queue = queue
        self._dispatcher = Dispatcher(storage.bus, queue)
        self._blocked = BlockedJobs(storage.bus, storage.jobs)
        self._artifacts = storage.patient_artifacts
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._backoff = Backoff(settings.retry_seconds, LONGEST_REDELIVERY_SECONDS)
        self._pipeline = pipeline
        self._jobs = storage.jobs
        self._replays = replays
        self._leases: set[Lease] = set()
        """Of the attempts under way."""

    async def run(self) -> None:
        """Runs until cancelled; jobs under way then go back to the queue."""
        # One subscription for all jobs: one for each would be the brokers' work, on a cluster all
        # of them, at the beginning and the end of every attempt.
        async with (
            self._dispatcher.listening(),
            self._bus.subscribed(self._bus.names.cancel("*"), self._on_cancel),
        ):
            await side_by_side(self._next, self._take)

    async def _on_cancel(self, message: Msg) -> None:
        job_id = id_of_subject(message.subject)
        for lease in self._leases:
            if lease.job.job_id == job_id:
                lease.cancel_requested.set()

    async def _next(self) -> Msg:
        """Returns the next work item once there is a slot for it."""
        # Not held while the queue is empty: a blocked job may need the slot first.
        async with self._slots:
            pass
        await self._readiness.until_ready()
        message = await self._dispatcher.next()
        try:
            async with keep_alive(message, self._queue.ack_wait_seconds):
                await self._slots.acquire()
        except asyncio.CancelledError:
            await give_back(message)
            raise
        return message

    async def _take(self, message: Msg) -> None:
        with Slot(self._slots, held=True) as slot:
            try:
                item = job_pb2.WorkItem.FromString(message.data)
                with bound_contextvars(job_id=item.job_id, correlation_id=item.correlation_id):
                    await self._handle(message, item, slot)
            except DecodeError:  # left in the queue it would come back for ever
                log.warning("drop unreadable work item", subject=message.subject)
                with suppress(NatsError):
                    await message.term()

    async def _handle(self, message: Msg, item: job_pb2.WorkItem, slot: Slot) -> None:
        again = False

        async def work() -> float | None:
            nonlocal again
            outcome = await self._work_when_possible(message, item, slot)
            again = outcome == _RENEW
            return None if again else outcome

        wait = await handle_delivery(
            message,
            work,
            retry_after=lambda *_: self._backoff.delay(message.metadata.num_delivered),
            lost=(LostError, ConflictError),
            ack_wait_seconds=self._queue.ack_wait_seconds,
        )
        if wait is not None:
            self._dispatcher.expect(message.subject, wait)
        if again:
            await self._renew(item.job_id)

    async def _renew(self, job_id: str) -> None:
        """Stores a new item in place of one that was acknowledged; else the reconciler does."""
        with suppress(MeshError):
            versioned = await self._jobs.get(job_id)
            if not versioned.terminal:
                await self._queue.put(versioned.job)

    async def _work_when_possible(
        self, message: Msg, item: job_pb2.WorkItem, slot: Slot
    ) -> float | None:
        """Seconds until the next attempt, or None if nothing is left to do."""
        while isinstance(outcome := await self._work(message, item, slot), Blocked):
            if self._blocked.full or outcome.is_crowded:
                deliveries = message.metadata.num_delivered
                if deliveries >= self._settings.max_deliveries // 2:
                    return _RENEW  # it waits for others: it must not be given up
                backoff = QUOTA_BACKOFF if outcome.is_crowded else REQUEUE_BACKOFF
                return backoff.delay(deliveries)
            slot.release()
            with self._blocked.counted():
                await outcome.wait()
            await slot.take()
        return outcome

    async def _work(
        self, message: Msg, item: job_pb2.WorkItem, slot: Slot
    ) -> float | Blocked | None:
        try:
            versioned = await outlast(lambda: self._jobs.get(item.job_id))
        except NotFoundError:
            return wait_for_record(
                item.enqueue_time.ToDatetime(UTC), message.metadata.num_delivered
            )
        if not await self._queue.is_item_of(message.subject, versioned.job):
            # Left under another caller's name by an earlier try of the request, which died.
            return None
        if replay_of := replay_of_item(message.headers):
            versioned = await self._replays.complete(item.job_id, replay_of)
        if not versioned.terminal:
            return await self._share_or_attempt(versioned, slot)
        resume_state = await self._read_event_log(item.job_id)
        await complete_event_log(self._storage, versioned.job, resume_state)
        return None

    async def _share_or_attempt(
        self, versioned: VersionedJob, slot: Slot
    ) -> float | Blocked | None:
        """Copies the result of an identical job, waits for one under way, or runs the job."""
        original = await self._dedup.original_of(versioned.record)
        if original is None or versioned.record.cancel_requested:
            return await self._attempt_if_possible(versioned, slot)
        if original.state in ACTIVE:
            job_ids = versioned.job.job_id, original.job_id
            return Blocked(partial(self._blocked.until_ended, *job_ids))
        try:
            await self._dedup.copy_result(
                versioned,
                await self._resume_state(versioned.job, partial(self._jobs.save, versioned)),
                original,
            )
        except NotFoundError:  # the original's files were removed just now
            return await self._attempt_if_possible(versioned, slot)
        return None

    async def _attempt_if_possible(
        self, versioned: VersionedJob, slot: Slot
    ) -> float | Blocked | None:
        """Runs the job unless no downloader serves it, or its owner's quota has no room now."""
        fetches = bool(versioned.job.source.url) and not versioned.record.cancel_requested
        if (
            fetches
            and not await self._readiness.can_fetch()
            and await self._artifacts.size(versioned.job.job_id, SOURCE) is None
        ):
            return Blocked(self._readiness.until_can_fetch)
        job = versioned.job
        if not versioned.record.cancel_requested and not await self._quotas.may_run(job):
            crowded = self._quotas.is_crowded(job.owner)
            return Blocked(partial(self._quotas.until_room, job), crowded)
        return await self._attempt(versioned, slot)

    async def _attempt(self, versioned: VersionedJob, slot: Slot) -> float | None:
        accepted = deepcopy(versioned.job)
        lease = Lease(self._jobs, versioned)
        # Before the job is RUNNING: only then is its runner asked to cancel it.
        self._leases.add(lease)
        try:
            return await self._run_attempt(accepted, lease, slot)
        finally:
            self._leases.discard(lease)

    async def _run_attempt(self, accepted: job_pb2.Job, lease: Lease, slot: Slot) -> float | None:
        # First of all: a crash from here on counts as an attempt.
        await lease.take(begin=begin)
        resume_state = await self._resume_state(accepted, lease.save)
        if resume_state.started:
            # After the event log was read: its fence stops later owners only. A log in which no
            # attempt has begun holds nothing of another owner.
            await lease.save()
        attempt = Attempt(self._storage, self._settings, self._pipeline, lease, resume_state, slot)
        return await attempt.run()

    async def _resume_state(
        self, accepted: job_pb2.Job, confirm: Callable[[], Awaitable[None]]
    ) -> ResumeState:
        """Reads the event log; opens it first if it is missing or ends with an earlier life."""
        read = partial(self._read_event_log, accepted.job_id, first_attempt=not accepted.attempt)
        resume_state = await read()
        if not resume_state.last_sequence or resume_state.finished:
            # The end may be that of another runner, which took the job before the log was read.
            await confirm()
            await open_event_log(self._bus, accepted, resume_state.last_sequence)
            resume_state = await read()
        return resume_state

    async def _read_event_log(self, job_id: str, *, first_attempt: bool = False) -> ResumeState:
        return await read_resume_state(
            self._storage.event_logs,
            job_id,
            first_attempt=first_attempt,
            patience_seconds=PATIENCE_SECONDS,
        )
