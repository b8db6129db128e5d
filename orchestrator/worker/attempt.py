"""One attempt at one job: runs the pipeline and records how it ended."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.bus import outlast
from mesh.errors import InternalError, MeshError, UnavailableError
from mesh.messages import copy_shared
from mesh.reasons import Reason
from mesh.slots import Slot
from mesh.tasks import stop
from orchestrator.jobs.artifacts import SOURCE, UPLOAD
from orchestrator.jobs.captions import translated_into
from orchestrator.jobs.completion import end_job, end_stage, skip_open_stages
from orchestrator.jobs.doubts import doubts
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.lease import Lease
from orchestrator.jobs.resume_state import ResumeState
from orchestrator.jobs.storage import PATIENCE_SECONDS, JobStorage
from orchestrator.metrics import ATTEMPTS_FAILED, JOBS_RUNNING, RETRIES, note_first_attempt
from orchestrator.pipeline.pipeline import Pipeline, first_of
from orchestrator.pipeline.request import PipelineRequest
from orchestrator.pipeline.stages import StageError, StateId, failure_of, reset_stages, stage_name
from orchestrator.settings import Settings
from orchestrator.worker.retry import Backoff
from orchestrator.worker.source_store import SourceStore
from orchestrator.worker.tracker import JobTracker
from ytcaption.v1 import event_pb2, job_pb2, media_pb2

log = get_logger(__name__)

AUDIO = "audio.webm"
"""The artifact name of the normalized audio."""
SCRATCH_PREFIX = "tmp-"
"""Of the files of an attempt in the working folder."""


class _CancelRequestedError(Exception):
    """A caller asked to cancel the job."""


def begin(job: job_pb2.Job) -> None:
    """Makes the job look as at the beginning of an attempt."""
    job.state = job_pb2.JOB_STATE_RUNNING
    if not job.HasField("start_time"):
        job.start_time.CopyFrom(from_current_time())
    job.ClearField("failure")
    job.ClearField("progress")
    job.ClearField("warnings")  # each attempt finds them anew
    reset_stages(job)


class Attempt:
    """Runs a job whose lease this runner holds."""

    def __init__(  # noqa: PLR0913 # everything a job needs
        self,
        storage: JobStorage,
        settings: Settings,
        pipeline: Pipeline,
        lease: Lease,
        resume_state: ResumeState,
        slot: Slot,
    ) -> None:
        self._storage = storage
        self._settings = settings
        self._pipeline = pipeline
        self._lease = lease
        self._resume_state = resume_state
        self._slot = slot
        self._backoff = Backoff(settings.retry_seconds, settings.retry_limit_seconds)
        self._artifacts = storage.patient_artifacts
        self._event_log = EventLogWriter(storage.bus, lease.job, resume_state.last_sequence)

    @property
    def _job(self) -> job_pb2.Job:
        return self._lease.job

    async def run(self) -> float | None:
        """Seconds until the next attempt, or None if the job is terminal now."""
        with JOBS_RUNNING.track_inprogress(), self._scratch() as (spool, source):
            tracker = JobTracker(self._lease, self._event_log, self._resume_state, spool)
            source_store = SourceStore(self._artifacts, self._job.job_id, source)
            try:
                await self._begin()
                request = await self._request(source)
                await self._run_unless_cancelled(request, tracker, source_store)
            except StageError as error:
                return await self._failed(tracker, error)
            except _CancelRequestedError:
                await self._end(job_pb2.JOB_STATE_CANCELLED)
                return None
            finally:
                tracker.close()
                await source_store.close()
            await self._succeeded(tracker, spool, source_store)
        return None

    @contextmanager
    def _scratch(self) -> Iterator[tuple[Path, Path]]:
        """Where audio and download are spooled; not in a folder of their own, which costs more."""
        paths = [
            self._settings.work_dir / f"{SCRATCH_PREFIX}{self._lease.runner_id}-{name}"
            for name in (AUDIO, SOURCE)
        ]
        try:
            yield paths[0], paths[1]
        finally:
            for path in paths:
                path.unlink(missing_ok=True)

    @property
    def _may_have_source(self) -> bool:
        """Whether an earlier attempt may have stored its download."""
        return self._job.attempt > 1

    async def _begin(self) -> None:
        job = self._job
        started = event_pb2.AttemptStarted(
            resume_offset=self._resume_state.settled_offset, runner_id=self._lease.runner_id
        )
        await self._event_log.append(attempt_started=started)
        if job.attempt == 1:
            note_first_attempt(job)
        crashes = (
            job.attempt - 1 - self._resume_state.earlier_attempts - self._resume_state.failures
        )
        if crashes >= self._settings.max_crashes:
            message = f"{crashes} attempts lost their runner"
            raise StageError(
                job_pb2.STAGE_UNSPECIFIED, InternalError(message, reason=Reason.CRASH_LOOP)
            )
        source = job.source.url or job.source.upload.file_name
        start = event_pb2.StartCollection(sources=[source], options=job.options)
        await self._event_log.append(start_collection=start)

    async def _run_unless_cancelled(
        self, request: PipelineRequest, tracker: JobTracker, source_store: SourceStore
    ) -> None:
        if request.spool is not None:
            tracker.on_downloaded = source_store.note_complete
        try:
            async with asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(tracker.publish_progress()),
                    group.create_task(self._raise_when_cancelled()),
                    group.create_task(source_store.store_soon()),
                ]
                try:
                    await self._pipeline.run(request, tracker)
                except StageError:
                    await source_store.store()
                    raise
                finally:
                    await stop(*helpers)
        except ExceptionGroup as failures:
            raise first_of(failures) from None

    async def _raise_when_cancelled(self) -> None:
        await self._lease.cancel_requested.wait()
        raise _CancelRequestedError

    async def _request(self, spool: Path) -> PipelineRequest:
        job, resume_state = self._job, self._resume_state
        uploaded = job.source.WhichOneof("origin") == "upload"
        stored = UPLOAD if uploaded else SOURCE
        size = None
        if uploaded or self._may_have_source:
            size = await self._artifacts.size(job.job_id, stored)
        prefers = job.options.captions_policy == job_pb2.CAPTIONS_POLICY_PREFER_HUMAN
        begun = job.HasField("human_captions")
        return PipelineRequest(
            human_captions=prefers
            and bool(job.source.url)
            and (begun or not resume_state.segments),
            captions_begun=begun,
            job_id=job.job_id,
            options=job.options,
            url=job.source.url,
            bytes_source=None if size is None else self._artifacts.read(job.job_id, stored),
            bytes_total=size,
            spool=spool if size is None else None,
            slot=self._slot,
            settled_offset=resume_state.settled_offset,
            next_index=resume_state.next_index,
            # By the job, not by the attempt: a retry must cut the recording at the same places.
            live=bool(job.source.url),
        )

    async def _succeeded(self, tracker: JobTracker, spool: Path, source_store: SourceStore) -> None:
        job = self._job
        if tracker.audio_media_type and tracker.audio_bytes:
            size = await self._artifacts.put_file(job.job_id, AUDIO, spool)
            del job.artifacts[:]
            job.artifacts.add(name=AUDIO, media_type=tracker.audio_media_type, size_bytes=size)
        transcript = await self._transcript(tracker)
        await self._artifacts.put_transcript(job.job_id, transcript)
        job.warnings.extend(doubts(transcript))
        if source_store.used or self._may_have_source:
            await self._artifacts.drop(job.job_id, SOURCE)
        job.progress = 1.0
        await self._end(job_pb2.JOB_STATE_SUCCEEDED)

    async def _transcript(self, tracker: JobTracker) -> media_pb2.Transcript:
        transcript = media_pb2.Transcript(duration=tracker.transcribed.duration)
        copy_shared(self._job, transcript)
        segments = tracker.settled
        if len(segments) != tracker.segments:  # earlier attempts settled the others
            segments = await outlast(partial(self._segments, tracker.segments), PATIENCE_SECONDS)
        transcript.segments.extend(segments)
        if into := translated_into(transcript, self._job.options.language_out):
            transcript.language_out = self._job.language_out = into
        return transcript

    async def _segments(self, settled: int) -> list[media_pb2.Segment]:
        """Reads the segments back; UnavailableError unless there are as many as were settled."""
        event_log = self._storage.event_logs.events(self._job.job_id)
        found = [
            event.segment_settled.segment
            async for _, event in event_log
            if event.HasField("segment_settled")
        ]
        if len(found) != settled:
            raise UnavailableError(
                f"the event log has {len(found)} of {settled} segments",
                reason=Reason.STORAGE_UNAVAILABLE,
            )
        return found

    async def _failed(self, tracker: JobTracker, error: StageError) -> float | None:
        job = self._job
        self._stop_stages(error)
        job.failure.CopyFrom(failure_of(error.error, error.stage, job.attempt))
        ATTEMPTS_FAILED.labels(stage_name(error.stage), error.error.reason).inc()
        log.warning("attempt failed", reason=job.failure.reason, error=str(error))
        tries = job.max_attempts - self._resume_state.earlier_attempts
        if job.failure.retryable and self._resume_state.failures + 1 < tries:
            return await self._retry_later(error.error)
        if error.stage == job_pb2.STAGE_DOWNLOAD:
            await tracker.append_collected(job.failure)
        await self._end(job_pb2.JOB_STATE_FAILED)
        return None

    def _stop_stages(self, error: StageError) -> None:
        timed_out, failed = job_pb2.STAGE_STATE_TIMED_OUT, job_pb2.STAGE_STATE_FAILED
        for status in self._job.stages:
            if status.stage == error.stage:
                end_stage(status, timed_out if error.timed_out else failed)
        skip_open_stages(self._job)

    async def _retry_later(self, error: MeshError) -> float:
        """Puts the job back into the queue; its failure stays readable meanwhile."""
        wait = self._backoff.delay(self._resume_state.failures + 1, error)
        failed = event_pb2.AttemptFailed(failure=self._job.failure)
        failed.retry_time.FromDatetime(datetime.now(UTC) + timedelta(seconds=wait))
        await self._event_log.append(attempt_failed=failed)
        RETRIES.labels("job", error.reason).inc()
        self._job.state = job_pb2.JOB_STATE_QUEUED
        await self._lease.save()
        return wait

    async def _end(self, state: StateId) -> None:
        await end_job(self._storage, self._lease, self._event_log, state)
