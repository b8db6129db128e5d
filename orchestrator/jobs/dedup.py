"""Identical jobs share one run: the same source, options and model within the cache time."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import grpc
from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import NotFoundError
from orchestrator.artifacts import Artifacts
from orchestrator.ending import end_job, skip_open_stages
from orchestrator.history import History
from orchestrator.jobs import ACTIVE, ConflictError, Jobs, Kept, Pointer, UnreadableError
from orchestrator.lease import Lease
from orchestrator.settings import Settings
from orchestrator.stages import Selected
from orchestrator.story import StoryWriter
from ytcaption.v1 import event_pb2, job_pb2

log = get_logger(__name__)


def cache_key(source: job_pb2.Source, options: job_pb2.JobOptions) -> str:
    """Content and options, never a file name."""
    content = source.upload.sha256 or source.url
    kind = source.WhichOneof("origin") or ""
    heard = job_pb2.JobOptions()
    heard.CopyFrom(options)
    heard.ClearField("cue_rules")  # they matter when captions are read
    chosen = heard.SerializeToString(deterministic=True)
    return sha256(b"\0".join((kind.encode(), content.encode(), chosen))).hexdigest()


def cache_pointer(record: job_pb2.JobRecord) -> str:
    """The key that points to the job whose run identical ones share."""
    return f"cache.{record.cache_key}"


class Cache:
    """Finds the job whose captions another may have."""

    def __init__(
        self, bus: Bus, settings: Settings, selected: Callable[[str], Awaitable[Selected]]
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._selected = selected
        self._jobs = Jobs(bus)
        self._artifacts = Artifacts(bus)

    async def twin_of(self, record: job_pb2.JobRecord) -> job_pb2.Job | None:
        """An identical job under way, or a finished one to copy; None if this one must run."""
        if not self._settings.cache_hours or not record.cache_key:
            return None
        while True:
            pointer = await self._jobs.pointer(cache_pointer(record))
            twin = None if record.force else await self._usable(pointer, record.job)
            if twin is not None or pointer.job_id == record.job.job_id:
                return twin
            try:
                await self._jobs.point(pointer, record.job.job_id)
            except ConflictError:
                continue
            return None

    async def _usable(self, pointer: Pointer, job: job_pb2.Job) -> job_pb2.Job | None:
        if pointer.job_id in ("", job.job_id):
            return None
        try:
            twin = (await self._jobs.get(pointer.job_id)).job
        except (NotFoundError, UnreadableError):
            return None
        if twin.state in ACTIVE:
            return twin
        age = datetime.now(UTC) - twin.end_time.ToDatetime(UTC)
        fresh = age < timedelta(hours=self._settings.cache_hours)
        if twin.state == job_pb2.JOB_STATE_SUCCEEDED and fresh and await self._same_models(twin):
            return twin
        return None

    async def _same_models(self, twin: job_pb2.Job) -> bool:
        made_by = Selected(twin.model, twin.translation_model)
        try:
            return await self._selected(twin.options.language_out) == made_by
        except grpc.aio.AioRpcError:
            return False

    async def serve(self, kept: Kept, history: History, twin: job_pb2.Job) -> None:
        """Ends the job with the twin's captions, its own copy of them: the twin may be deleted."""
        transcript = await self._artifacts.transcript(twin.job_id)
        lease = Lease(self._jobs, kept)
        await lease.take()
        job = lease.job
        story = StoryWriter(self._bus, job, history.last_sequence)
        _adopt_facts(job, twin)
        started = event_pb2.AttemptStarted(runner_id=lease.runner_id)
        await story.tell(event_pb2.EVENT_TYPE_ATTEMPT_STARTED, attempt_started=started)
        found = event_pb2.MediaFound(media=job.media)
        await story.tell(event_pb2.EVENT_TYPE_MEDIA_FOUND, media_found=found)
        for segment in transcript.segments[history.segments :]:
            settled = event_pb2.SegmentSettled(segment=segment)
            await story.tell(event_pb2.EVENT_TYPE_SEGMENT_SETTLED, segment_settled=settled)
        for artifact in job.artifacts:
            await self._artifacts.copy(
                twin.job_id, job.job_id, artifact.name, self._settings.work_dir
            )
        await self._artifacts.put_transcript(job.job_id, transcript)
        await end_job(self._bus, lease, story, job_pb2.JOB_STATE_SUCCEEDED)
        log.info("served from an identical job", twin=twin.job_id)


def _adopt_facts(job: job_pb2.Job, twin: job_pb2.Job) -> None:
    """Everything the twin's run found out."""
    job.cached_from_job_id = twin.cached_from_job_id or twin.job_id
    job.start_time.CopyFrom(from_current_time())
    job.media.CopyFrom(twin.media)
    job.model, job.language = twin.model, twin.language
    job.language_out, job.translation_model = twin.language_out, twin.translation_model
    if twin.HasField("human_captions"):
        job.human_captions.CopyFrom(twin.human_captions)
    if twin.HasField("language_probability"):
        job.language_probability = twin.language_probability
    for field in ("applied_filters", "warnings", "artifacts"):
        del getattr(job, field)[:]
        getattr(job, field).extend(getattr(twin, field))
    job.segment_count = twin.segment_count
    job.progress = 1.0
    job.ClearField("failure")
    skip_open_stages(job)
