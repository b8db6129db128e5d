"""Deduplication: identical jobs (source, options, models) share one run within the cache time."""

from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import grpc
from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.errors import NotFoundError
from orchestrator.jobs.completion import end_job
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.lease import Lease
from orchestrator.jobs.resume_state import ResumeState
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import ACTIVE, ConflictError, Pointer, UnreadableError, VersionedJob
from orchestrator.pipeline.stages import Selected
from orchestrator.settings import Settings
from ytcaption.v1 import event_pb2, job_pb2

log = get_logger(__name__)


def dedup_key(source: job_pb2.Source, options: job_pb2.JobOptions, owner: str = "") -> str:
    """Hashes the source, the options that change the text, and the owner, not the file name.

    A result of another owner would tell that there is one.
    """
    content = source.upload.sha256 or source.url
    kind = source.WhichOneof("origin") or ""
    relevant = deepcopy(options)
    relevant.ClearField("cue_rules")  # they matter when captions are read
    chosen = relevant.SerializeToString(deterministic=True)
    parts = [kind.encode(), content.encode(), chosen, *([owner.encode()] if owner else ())]
    return sha256(b"\0".join(parts)).hexdigest()


def dedup_pointer(record: job_pb2.JobRecord) -> str:
    """The key that points to the job whose result identical jobs copy."""
    return f"cache.{record.cache_key}"


@dataclass(frozen=True, slots=True)
class Dedup:
    """Finds the original of a job, and copies its result."""

    storage: JobStorage
    settings: Settings
    selected: Callable[[str], Awaitable[Selected]]
    """The models a job translated into that language would get now."""

    async def original_of(self, record: job_pb2.JobRecord) -> job_pb2.Job | None:
        """An identical job under way, or a finished one to copy; None if this one must run."""
        if not self.settings.cache_hours or not record.cache_key:
            return None
        pointer = Pointer(dedup_pointer(record))
        if record.job.attempt:  # else most are the first of their source, so do not look first
            pointer = await self.storage.jobs.pointer(pointer.key)
        while True:
            original = None if record.force else await self._usable(pointer, record.job)
            if original is not None or pointer.id == record.job.job_id:
                return original
            try:
                await self.storage.jobs.point(pointer, record.job.job_id)
            except ConflictError:
                pointer = await self.storage.jobs.pointer(pointer.key)
            else:
                return None

    async def _usable(self, pointer: Pointer, job: job_pb2.Job) -> job_pb2.Job | None:
        if pointer.id in ("", job.job_id):
            return None
        try:
            original = (await self.storage.jobs.get(pointer.id)).job
        except (NotFoundError, UnreadableError):
            return None
        if original.state in ACTIVE:
            return original
        age = datetime.now(UTC) - original.end_time.ToDatetime(UTC)
        fresh = age < timedelta(hours=self.settings.cache_hours)
        succeeded = original.state == job_pb2.JOB_STATE_SUCCEEDED
        usable = succeeded and fresh and await self._same_models(original)
        return original if usable else None

    async def _same_models(self, original: job_pb2.Job) -> bool:
        made_by = Selected(original.model, original.translation_model)
        try:
            return await self.selected(original.options.language_out) == made_by
        except grpc.aio.AioRpcError:
            return False

    async def copy_result(
        self, versioned: VersionedJob, resume_state: ResumeState, original: job_pb2.Job
    ) -> None:
        """Ends the job with its own copy of the original's result: the original may be deleted."""
        transcript = await self.storage.artifacts.transcript(original.job_id)
        lease = Lease(self.storage.jobs, versioned)
        await lease.take()
        job = lease.job
        event_log = EventLogWriter(self.storage.bus, job, resume_state.last_sequence)
        _copy_fields(job, original)
        started = event_pb2.AttemptStarted(runner_id=lease.runner_id)
        await event_log.append(attempt_started=started)
        await event_log.append(media_found=event_pb2.MediaFound(media=job.media))
        for segment in transcript.segments[resume_state.segments :]:
            await event_log.append(segment_settled=event_pb2.SegmentSettled(segment=segment))
        for artifact in job.artifacts:
            await self.storage.artifacts.copy(
                original.job_id, job.job_id, artifact.name, self.settings.work_dir
            )
        await self.storage.artifacts.put_transcript(job.job_id, transcript)
        await end_job(self.storage, lease, event_log, job_pb2.JOB_STATE_SUCCEEDED)
        log.info("copied the result of an identical job", original=original.job_id)


def _copy_fields(job: job_pb2.Job, original: job_pb2.Job) -> None:
    """Copies everything the original's run found out."""
    job.cached_from_job_id = original.cached_from_job_id or original.job_id
    job.start_time.CopyFrom(from_current_time())
    job.media.CopyFrom(original.media)
    job.model, job.language = original.model, original.language
    job.language_out, job.translation_model = original.language_out, original.translation_model
    if original.HasField("human_captions"):
        job.human_captions.CopyFrom(original.human_captions)
    if original.HasField("language_probability"):
        job.language_probability = original.language_probability
    for field in ("applied_filters", "warnings", "artifacts"):
        del getattr(job, field)[:]
        getattr(job, field).extend(getattr(original, field))
    job.segment_count = original.segment_count
    job.progress = 1.0
    job.ClearField("failure")
