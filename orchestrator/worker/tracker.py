"""Writes what the pipeline reports to the job's record, event log and live progress."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from google.protobuf.timestamp import from_current_time

from mesh.messages import copy_shared
from mesh.reasons import WarningReason
from orchestrator.jobs.completion import end_stage
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.lease import Lease
from orchestrator.jobs.resume_state import ResumeState
from orchestrator.metrics import SEGMENTS
from orchestrator.pipeline.sink import Sink
from orchestrator.pipeline.stages import StageId, stage_status
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

PUBLISH_SECONDS = 0.1
SAVE_SECONDS = 1.0


class JobTracker(Sink):
    """The pipeline's sink for a durable job."""

    def __init__(
        self, lease: Lease, event_log: EventLogWriter, resume_state: ResumeState, spool: Path
    ) -> None:
        self._lease = lease
        self._event_log = event_log
        self.segments = resume_state.segments
        """Settled by this attempt and those before it."""
        self.settled: list[media_pb2.Segment] = []
        """Those of this attempt, each of them stored in the event log."""
        self._spool_path = spool
        self._spool: BinaryIO | None = None
        self._bytes = 0
        self._unpublished = False
        self.audio_media_type = ""
        self.audio_bytes = 0
        self.on_downloaded: Callable[[], None] = lambda: None
        self.transcribed = transcriber_pb.TranscribeFinished()

    @property
    def _job(self) -> job_pb2.Job:
        return self._lease.job

    def _stage(self, stage: StageId) -> job_pb2.StageStatus:
        return stage_status(self._job, stage)

    async def publish_progress(self) -> None:
        """Publishes progress at most ten times a second, and stores it once a second."""
        ticks = 0
        unsaved = False
        while True:
            await asyncio.sleep(PUBLISH_SECONDS)
            ticks += 1
            if self._unpublished:
                self._unpublished, unsaved = False, True
                await self._publish()
            if unsaved and ticks * PUBLISH_SECONDS >= SAVE_SECONDS:
                ticks, unsaved = 0, False
                await self._lease.save()

    async def _publish(self) -> None:
        live = job_pb2.JobProgress()
        copy_shared(self._job, live)
        await self._event_log.publish_progress(live)

    def close(self) -> None:
        """Ends the spooled audio file."""
        if self._spool is not None:
            self._spool.close()

    async def stage_started(self, stage: StageId) -> None:
        status = self._stage(stage)
        status.state = job_pb2.STAGE_STATE_RUNNING
        status.start_time.CopyFrom(from_current_time())
        await self._append_stage(stage)

    async def stage_completed(self, stage: StageId) -> None:
        if stage == job_pb2.STAGE_DOWNLOAD:
            self.on_downloaded()
        await self._complete_stage(stage)

    async def _complete_stage(self, stage: StageId) -> None:
        end_stage(self._stage(stage), job_pb2.STAGE_STATE_COMPLETED)
        await self._append_stage(stage)
        if stage == job_pb2.STAGE_DOWNLOAD:
            await self.append_collected()

    async def _append_stage(self, stage: StageId) -> None:
        self._unpublished = True
        await self._event_log.append(stage_changed=event_pb2.StageChanged(stage=self._stage(stage)))

    async def append_collected(self, failure: job_pb2.Failure | None = None) -> None:
        """Logs how fetching the source ended."""
        result = event_pb2.CollectionResult(
            source=self._job.source,
            state=self._stage(job_pb2.STAGE_DOWNLOAD).state,
            media=self._job.media if self._job.HasField("media") else None,
            size_bytes=self._bytes,
            failure=failure,
        )
        await self._event_log.append(collection_result=result)

    async def media_found(self, media: media_pb2.MediaInfo) -> None:
        self._job.media.CopyFrom(media)
        self._unpublished = True
        await self._event_log.append(media_found=event_pb2.MediaFound(media=media))

    async def filters_chosen(self, started: normalizer_pb.NormalizeStarted) -> None:
        del self._job.applied_filters[:]
        self._job.applied_filters.extend(started.applied_filters)
        self.audio_media_type = started.kept_audio_media_type

    async def model_preparing(self, preparing: media_pb2.ModelPreparation) -> None:
        self._stage(job_pb2.STAGE_TRANSCRIPTION).preparing.CopyFrom(preparing)
        self._unpublished = True

    async def model_ready(self, started: transcriber_pb.TranscribeStarted) -> None:
        self._stage(job_pb2.STAGE_TRANSCRIPTION).ClearField("preparing")
        self._unpublished = True
        self._job.model, self._job.translation_model = started.model, started.translation_model
        begun = event_pb2.StartExecution(
            model=started.model, options=self._job.options, source=self._job.source
        )
        await self._event_log.append(start_execution=begun)

    async def progressed(self, stage: StageId, progress: media_pb2.Progress) -> None:
        if progress.WhichOneof("amount") == "bytes":
            self._bytes = max(self._bytes, progress.bytes.done_bytes)
        elif stage == job_pb2.STAGE_NORMALIZATION and progress.media.HasField("total"):
            self._learn_length(progress.media)
        status = self._stage(stage)
        if _amount(progress) >= _amount(status.progress):
            status.progress.CopyFrom(progress)
            self._fill_in_total(status)
            self._unpublished = True
        if stage == job_pb2.STAGE_TRANSCRIPTION:
            self._update_fraction()

    def _learn_length(self, progress: media_pb2.MediaProgress) -> None:
        """Takes the length from the container where the site did not know it."""
        if not self._job.media.HasField("duration"):
            self._job.media.duration.CopyFrom(progress.total)

    def _fill_in_total(self, status: job_pb2.StageStatus) -> None:
        media = status.progress.media
        if status.progress.HasField("media") and self._job.media.HasField("duration"):
            media.total.CopyFrom(self._job.media.duration)

    def _update_fraction(self) -> None:
        total = self._job.media.duration.ToTimedelta().total_seconds()
        done = _amount(self._stage(job_pb2.STAGE_TRANSCRIPTION).progress)
        if total > 0:
            self._job.progress = max(self._job.progress, min(1.0, done / total))

    async def audio_kept(self, frame: bytes) -> None:
        if self._spool is None:
            self._spool = self._spool_path.open("wb")
        self.audio_bytes += self._spool.write(frame)

    async def normalized(self, finished: normalizer_pb.NormalizeFinished) -> None:
        self._job.media.duration.CopyFrom(finished.duration)
        for message in finished.warnings:
            self._job.warnings.add(reason=WarningReason.MEDIA_DAMAGED, message=message)
        done = media_pb2.MediaProgress(done=finished.duration, total=finished.duration)
        await self.progressed(job_pb2.STAGE_NORMALIZATION, media_pb2.Progress(media=done))

    async def captions_found(self, track: media_pb2.CaptionTrack) -> None:
        self._job.human_captions.CopyFrom(track)
        self._job.language = track.language
        # Before the first caption: a later attempt must know that it may not transcribe instead.
        await self._lease.save()

    async def captions_taken(self) -> None:
        self.transcribed = transcriber_pb.TranscribeFinished(
            language=self._job.language, duration=self._job.media.duration
        )
        await self._complete_stage(job_pb2.STAGE_DOWNLOAD)

    async def segment_settled(self, segment: media_pb2.Segment) -> None:
        if segment.index < self.segments:  # settled by an earlier attempt
            return
        self.segments = segment.index + 1
        self._job.segment_count = self.segments
        self._job.language = segment.language
        self._unpublished = True
        SEGMENTS.inc()
        await self._event_log.append(segment_settled=event_pb2.SegmentSettled(segment=segment))
        self.settled.append(segment)

    async def finished(self, finished: transcriber_pb.TranscribeFinished) -> None:
        self.transcribed = finished
        self._job.language = finished.language or self._job.language
        self._job.language_out = finished.language_out or self._job.language_out
        if finished.HasField("language_probability"):
            self._job.language_probability = finished.language_probability
        done = media_pb2.MediaProgress(done=finished.duration, total=finished.duration)
        await self.progressed(job_pb2.STAGE_TRANSCRIPTION, media_pb2.Progress(media=done))


def _amount(progress: media_pb2.Progress) -> float:
    if progress.WhichOneof("amount") == "bytes":
        return float(progress.bytes.done_bytes)
    return progress.media.done.ToTimedelta().total_seconds()
