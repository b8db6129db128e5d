"""One attempt at one job: run the pipeline, then write down how it ended."""

import asyncio
import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import InternalError
from mesh.reasons import Reason
from mesh.tasks import stop
from orchestrator.artifacts import SOURCE, UPLOAD, Artifacts
from orchestrator.captions import translated_into
from orchestrator.ending import end_job, reset_stages, skip_open_stages
from orchestrator.figures import ATTEMPTS_FAILED, JOBS_RUNNING, stage_name
from orchestrator.history import History
from orchestrator.keeper import SourceKeeper
from orchestrator.lease import Lease
from orchestrator.pipeline import Pipeline, first_of
from orchestrator.settings import Settings
from orchestrator.stages import StageError, StateId
from orchestrator.story import StoryReader, StoryWriter
from orchestrator.task import Task
from orchestrator.tracker import JobTracker
from ytcaption.v1 import event_pb2, job_pb2, media_pb2

log = get_logger(__name__)

KEPT_AUDIO = "audio.webm"
PATIENCE_SECONDS = 60
"""A broker that is back within this time costs an attempt nothing."""


LONGEST_SITE_SECONDS = 3600
"""A site that asks for more patience than this is asked again all the same."""


class _CancelRequestedError(Exception):
    """A caller asked for the job to stop."""


class Attempt:
    """Runs a job that is already leased to us."""

    def __init__(
        self, bus: Bus, settings: Settings, pipeline: Pipeline, lease: Lease, history: History
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._pipeline = pipeline
        self._lease = lease
        self._history = history
        self._artifacts = Artifacts(bus, patience_seconds=PATIENCE_SECONDS)
        self._story = StoryWriter(bus, lease.job, history.last_sequence)

    @property
    def _job(self) -> job_pb2.Job:
        return self._lease.job

    async def run(self) -> float | None:
        """Seconds until the next attempt, or None if the job is terminal now."""
        with (
            JOBS_RUNNING.track_inprogress(),
            tempfile.TemporaryDirectory(dir=self._settings.work_dir) as folder,
        ):
            spool, source = Path(folder) / KEPT_AUDIO, Path(folder) / SOURCE
            tracker = JobTracker(self._lease, self._story, self._history, spool)
            keeper = SourceKeeper(self._artifacts, self._job.job_id, source)
            try:
                await self._begin(tracker)
                await self._run_unless_cancelled(await self._task(source), tracker, keeper)
            except StageError as error:
                return await self._failed(tracker, error)
            except _CancelRequestedError:
                await self._cancelled()
                return None
            finally:
                tracker.close()
                await keeper.settle()
            await self._succeeded(tracker, spool)
        return None

    async def _begin(self, tracker: JobTracker) -> None:
        job = self._job
        job.state = job_pb2.JOB_STATE_RUNNING
        if not job.HasField("start_time"):
            job.start_time.CopyFrom(from_current_time())
        job.ClearField("failure")
        job.ClearField("progress")
        reset_stages(job)
        started = event_pb2.AttemptStarted(
            resume_offset=self._history.settled_offset, runner_id=self._lease.runner_id
        )
        await self._story.tell(event_pb2.EVENT_TYPE_ATTEMPT_STARTED, attempt_started=started)
        await self._lease.save()
        crashes = job.attempt - 1 - self._history.earlier_attempts - self._history.failures
        if crashes >= self._settings.max_crashes:
            message = f"{crashes} attempts ended without a word"
            raise StageError(
                job_pb2.STAGE_UNSPECIFIED, InternalError(message, reason=Reason.CRASH_LOOP)
            )
        source = job.source.url or job.source.upload.file_name
        start = event_pb2.StartCollection(sources=[source], options=job.options)
        await self._story.tell(event_pb2.EVENT_TYPE_START_COLLECTION, start_collection=start)

    async def _run_unless_cancelled(
        self, task: Task, tracker: JobTracker, keeper: SourceKeeper
    ) -> None:
        if task.spool is not None:
            tracker.on_downloaded = keeper.note_whole
        try:
            async with asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(tracker.keep_telling()),
                    group.create_task(self._raise_when_cancelled()),
                    group.create_task(keeper.keep_soon()),
                ]
                try:
                    await self._pipeline.run(task, tracker)
                except StageError:
                    await keeper.keep()
                    raise
                finally:
                    await stop(*helpers)
        except ExceptionGroup as failures:
            raise first_of(failures) from None

    async def _raise_when_cancelled(self) -> None:
        await self._lease.cancel_requested.wait()
        raise _CancelRequestedError

    async def _task(self, spool: Path) -> Task:
        job, history = self._job, self._history
        kept = UPLOAD if job.source.WhichOneof("origin") == "upload" else SOURCE
        size = await self._artifacts.size(job.job_id, kept)
        prefers = job.options.captions_policy == job_pb2.CAPTIONS_POLICY_PREFER_HUMAN
        begun = job.HasField("human_captions")
        return Task(
            human_captions=prefers and bool(job.source.url) and (begun or not history.segments),
            captions_begun=begun,
            job_id=job.job_id,
            options=job.options,
            url=job.source.url,
            bytes_source=None if size is None else self._artifacts.read(job.job_id, kept),
            bytes_total=size,
            spool=spool if size is None else None,
            settled_offset=history.settled_offset,
            next_index=history.next_index,
        )

    async def _succeeded(self, tracker: JobTracker, spool: Path) -> None:
        job = self._job
        if tracker.kept_media_type and tracker.kept_bytes:
            size = await self._artifacts.put_file(job.job_id, KEPT_AUDIO, spool)
            del job.artifacts[:]
            job.artifacts.add(name=KEPT_AUDIO, media_type=tracker.kept_media_type, size_bytes=size)
        await self._artifacts.put_transcript(job.job_id, await self._transcript(tracker))
        await self._artifacts.drop(job.job_id, SOURCE)
        skip_open_stages(job)
        job.progress = 1.0
        await self._end(job_pb2.JOB_STATE_SUCCEEDED)

    async def _transcript(self, tracker: JobTracker) -> media_pb2.Transcript:
        transcript = media_pb2.Transcript(
            language=self._job.language,
            duration=tracker.ended.duration,
            model=self._job.model,
            language_out=self._job.language_out,
        )
        if self._job.HasField("language_probability"):
            transcript.language_probability = self._job.language_probability
        story = StoryReader(self._bus).events(self._job.job_id, patience_seconds=PATIENCE_SECONDS)
        async for _, event in story:
            if event.HasField("segment_settled"):
                transcript.segments.append(event.segment_settled.segment)
        if into := translated_into(transcript, self._job.options.language_out):
            transcript.language_out = self._job.language_out = into
        return transcript

    async def _failed(self, tracker: JobTracker, error: StageError) -> float | None:
        job = self._job
        self._stop_stages(tracker, error)
        job.failure.CopyFrom(
            job_pb2.Failure(
                reason=error.error.reason,
                message=str(error),
                retryable=error.error.retryable,
                stage=error.stage,
                attempt=job.attempt,
            )
        )
        ATTEMPTS_FAILED.labels(stage_name(error.stage), error.error.reason).inc()
        log.warning("attempt failed", reason=job.failure.reason, error=str(error))
        tries = job.max_attempts - self._history.earlier_attempts
        if job.failure.retryable and self._history.failures + 1 < tries:
            return await self._put_off(error.error.retry_after_seconds or 0)
        if error.stage == job_pb2.STAGE_DOWNLOAD:
            await tracker.tell_collected(job.failure)
        await self._end(job_pb2.JOB_STATE_FAILED)
        return None

    def _stop_stages(self, tracker: JobTracker, error: StageError) -> None:
        for status in self._job.stages:
            if status.stage == error.stage:
                state = (
                    job_pb2.STAGE_STATE_TIMED_OUT if error.timed_out else job_pb2.STAGE_STATE_FAILED
                )
                tracker.end_stage(status.stage, state)
        skip_open_stages(self._job)

    async def _put_off(self, site_wants_seconds: float) -> float:
        """The job goes back to the queue; its failure stays readable meanwhile."""
        settings = self._settings
        doubled = settings.retry_seconds * 2.0**self._history.failures
        wait = min(settings.retry_limit_seconds, doubled)
        wait *= random.uniform(0.75, 1.25)  # noqa: S311 # jitter, so that jobs do not return as one
        wait = max(wait, min(site_wants_seconds, LONGEST_SITE_SECONDS))
        failed = event_pb2.AttemptFailed(failure=self._job.failure)
        failed.retry_time.FromDatetime(datetime.now(UTC) + timedelta(seconds=wait))
        await self._story.tell(event_pb2.EVENT_TYPE_ATTEMPT_FAILED, attempt_failed=failed)
        self._job.state = job_pb2.JOB_STATE_QUEUED
        await self._lease.save()
        return wait

    async def _cancelled(self) -> None:
        skip_open_stages(self._job)
        await self._end(job_pb2.JOB_STATE_CANCELLED)

    async def _end(self, state: StateId) -> None:
        await end_job(self._bus, self._lease, self._story, state)
