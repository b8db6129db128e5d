"""Submission and rerun of jobs: durable before they are acknowledged, once for each request_id."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh import identity as caller
from mesh.answers import prompt
from mesh.correlation import current, new_id
from mesh.errors import MeshError, SourceRefusedError
from mesh.reasons import Reason
from mesh.watching import TERMINAL
from orchestrator.access.audit import about
from orchestrator.jobs.artifacts import UPLOAD, Artifacts
from orchestrator.jobs.dedup import dedup_key
from orchestrator.jobs.event_log import open_event_log
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import ConflictError, JobStore, ReservedId, VersionedJob
from orchestrator.jobs.validation import SchedulingKey, check_word, permitted
from orchestrator.pipeline.stages import reset_stages
from orchestrator.queue.capacity import Capacity
from orchestrator.queue.work_queue import WorkQueue
from orchestrator.quotas.quotas import Quotas, Wanted
from orchestrator.quotas.usage import (
    AUDIO_HOURS,
    QUEUED_JOBS,
    STORED_BYTES,
    UPLOADS,
    WEBHOOKS,
    LimitId,
)
from orchestrator.settings import Settings
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

Reservation: TypeAlias = ReservedId[VersionedJob]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a caller asks for."""

    source: job_pb2.Source
    options: job_pb2.JobOptions
    turn: SchedulingKey
    correlation_id: str = ""
    force: bool = False
    webhook_url: str = ""
    collection_id: str = ""
    owner: str = ""
    group: str = ""

    def wanted(self, upload_bytes: int = 0) -> Wanted:
        """What the job uses of its owner's quota; the size of its upload may not be known yet."""
        upload_bytes = self.source.upload.size_bytes or upload_bytes
        wanted: dict[LimitId, float] = {QUEUED_JOBS: 1, AUDIO_HOURS: 0, STORED_BYTES: upload_bytes}
        return wanted | {WEBHOOKS: 1} if self.webhook_url else wanted


class Submission:
    """Turns requests into durable jobs."""

    def __init__(
        self,
        storage: JobStorage,
        queue: WorkQueue,
        settings: Settings,
        quotas: Quotas,
        capacity: Capacity,
    ) -> None:
        self._bus = storage.bus
        self._jobs = storage.jobs
        self._artifacts = storage.artifacts
        self._quotas = quotas
        self._capacity = capacity
        self._queue = queue
        self._max_attempts = settings.max_attempts
        self.prompt = partial(prompt, settings.accept_seconds)
        """In such a block all requests to the broker share one patience; else each step has one."""

    async def reserve(self, request_id: str, owner: str = "") -> Reservation:
        """Reserves an id for a request; repeated by its owner, it gets the job it made before."""
        with self.prompt():
            return await self._jobs.reserve(check_word(request_id, "request_id"), owner)

    async def reserved(self, request_id: str) -> Reservation | None:
        """What was reserved for a request that made no job yet; None if nothing was."""
        with self.prompt():
            return await self._jobs.reserved(request_id)

    async def check_room(self, spec: JobSpec, upload_bytes: int = 0) -> None:
        """Raises if the stores or the owner's quota have no room for the job; before much is done.

        What counts is decided when the job is accepted.
        """
        await self._capacity.check(upload_bytes)
        await self._quotas.check(spec.owner, spec.wanted(upload_bytes))

    @asynccontextmanager
    async def receiving(self, spec: JobSpec, announced: int) -> AsyncIterator[None]:
        """Counts an upload that is received inside the block; raises if there is no room for it."""
        await self.check_room(spec, announced)
        async with self._quotas.opened(spec.owner, {UPLOADS: 1}):
            yield

    async def accept(
        self, reservation: Reservation, spec: JobSpec, upload: Path | None = None
    ) -> job_pb2.Job:
        """Returns once the job, its upload and its work item are on disk."""
        about(reservation.id)
        async with self._quotas.admitted(spec.owner, reservation.id, spec.wanted()):
            if upload is not None:
                await self._artifacts.put_file(reservation.id, UPLOAD, upload)
            return await self._accept(reservation, spec)

    async def _accept(self, reservation: Reservation, spec: JobSpec) -> job_pb2.Job:
        named = check_word(spec.correlation_id, "correlation_id")
        job = job_pb2.Job(
            job_id=reservation.id,
            correlation_id=named or current() or new_id(),
            collection_id=spec.collection_id,
            source=spec.source,
            options=spec.options,
            state=job_pb2.JOB_STATE_QUEUED,
            max_attempts=self._max_attempts,
            create_time=from_current_time(),
            caller=spec.turn.caller,
            priority=spec.turn.priority,
            webhook_url=spec.webhook_url,
            owner=spec.owner,
            group=spec.group,
        )
        reset_stages(job)
        record = job_pb2.JobRecord(
            job=job,
            request_id=reservation.request_key,
            force=spec.force,
            cache_key=dedup_key(spec.source, spec.options, spec.owner),
        )
        with self.prompt():
            return await self._store(record)

    async def _store(self, record: job_pb2.JobRecord) -> job_pb2.Job:
        job = record.job
        # The work item first: a runner that finds no job waits, then drops it. The other way
        # round, a failure in between would leave a job that is queued for ever.
        # An earlier try of this request may have left its item there: that one will do.
        await self._queue.put(job)
        try:
            await self._jobs.create(record)
        except ConflictError:  # the same request, at the same time
            return (await self._jobs.get(job.job_id)).job
        with suppress(MeshError):  # the runner does it if we cannot
            await open_event_log(self._bus, job, patience_seconds=0)
        log.info("job accepted", job_id=job.job_id)
        return job


@dataclass(frozen=True, slots=True)
class Rerun:
    """Submits a new job like one that has ended; the old job stays as it is."""

    jobs: JobStore
    artifacts: Artifacts
    submission: Submission
    work_dir: Path

    async def repeat(
        self, job_id: str, request_id: str, correlation_id: str, webhook_url: str = ""
    ) -> job_pb2.Job:
        """Returns the new job; raises if the old one has not ended or its file is gone."""
        old = (await self.jobs.visible(job_id)).job
        if old.state not in TERMINAL:
            raise SourceRefusedError(
                f"job {job_id} has not ended; it can be run again only after its end",
                reason=Reason.JOB_NOT_ENDED,
            )
        owner = caller.current().subject
        reservation = await self.submission.reserve(request_id, owner)
        if reservation.accepted:
            return reservation.accepted.job
        turn = SchedulingKey(old.caller, permitted(old.priority))
        spec = JobSpec(
            old.source,
            old.options,
            turn,
            correlation_id,
            True,
            webhook_url,
            owner=owner,
            group=caller.current().sharing_again(old.group),
        )
        await self.submission.check_room(spec, old.source.upload.size_bytes)
        if old.source.HasField("upload"):
            await self.artifacts.copy(job_id, reservation.id, UPLOAD, self.work_dir)
        return await self.submission.accept(reservation, spec)
