"""Turns what the pipeline reports into the job's record, story and live figures."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from google.protobuf.timestamp import from_current_time

from orchestrator.ending import end_stage
from orchestrator.figures import SEGMENTS
from orchestrator.history import History
from orchestrator.lease import Lease
from orchestrator.stages import StageId
from orchestrator.story import StoryWriter
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

TELL_SECONDS = 0.1
SAVE_SECONDS = 1.0


class JobTracker:
    """The pipeline's sink for a durable job."""

    def __init__(self, lease: Lease, story: StoryWriter, history: History, spool: Path) -> None:
        self._lease = lease
        self._story = story
        self._segments = history.segments
        self._spool = spool.open("wb")
        self._bytes = 0
        self._dirty = False
        self.kept_media_type = ""
        self.kept_bytes = 0
        self.on_downloaded: Callable[[], None] = lambda: None
        self.ended = transcriber_pb.TranscribeFinished()

    @property
    def _job(self) -> job_pb2.Job:
        return self._lease.job

    def _stage(self, stage: StageId) -> job_pb2.StageStatus:
        return self._job.stages[stage - 1]

    async def keep_telling(self) -> None:
        """Shows live figures ten times a second at most, and stores them once a second."""
        ticks = 0
        unsaved = False
        while True:
            await asyncio.sleep(TELL_SECONDS)
            ticks += 1
            if self._dirty:
                self._dirty, unsaved = False, True
                await self._show()
            if unsaved and ticks * TELL_SECONDS >= SAVE_SECONDS:
                ticks, unsaved = 0, False
                await self._lease.save()

    async def _show(self) -> None:
        job = self._job
        live = job_pb2.JobProgress(job_id=job.job_id, attempt=job.attempt, stages=job.stages)
        if job.HasField("progress"):
            live.progress = job.progress
        await self._story.show_progress(live)

    def close(self) -> None:
        """Ends the spooled audio file."""
        self._spool.close()

    async def stage_started(self, stage: StageId) -> None:
        status = self._stage(stage)
        status.state = job_pb2.STAGE_STATE_RUNNING
        status.start_time.CopyFrom(from_current_time())
        await self._tell_stage(stage)

    async def stage_completed(self, stage: StageId) -> None:
        self.end_stage(stage, job_pb2.STAGE_STATE_COMPLETED)
        await self._tell_stage(stage)
        if stage == job_pb2.STAGE_DOWNLOAD:
            self.on_downloaded()
            await self.tell_collected()

    def end_stage(self, stage: StageId, state: "job_pb2.StageState.ValueType") -> None:
        """Marks a stage as over."""
        end_stage(self._stage(stage), state)

    async def _tell_stage(self, stage: StageId) -> None:
        self._dirty = True
        changed = event_pb2.StageChanged(stage=self._stage(stage))
        await self._story.tell(event_pb2.EVENT_TYPE_STAGE_CHANGED, stage_changed=changed)

    async def tell_collected(self, failure: job_pb2.Failure | None = None) -> None:
        """Says how fetching the source ended."""
        result = event_pb2.CollectionResult(
            source=self._job.source,
            state=self._stage(job_pb2.STAGE_DOWNLOAD).state,
            media=self._job.media if self._job.HasField("media") else None,
            size_bytes=self._bytes,
            failure=failure,
        )
        await self._story.tell(event_pb2.EVENT_TYPE_COLLECTION_RESULT, collection_result=result)

    async def media_found(self, media: media_pb2.MediaInfo) -> None:
        self._job.media.CopyFrom(media)
        self._dirty = True
        found = event_pb2.MediaFound(media=media)
        await self._story.tell(event_pb2.EVENT_TYPE_MEDIA_FOUND, media_found=found)

    async def filters_chosen(self, started: normalizer_pb.NormalizeStarted) -> None:
        del self._job.applied_filters[:]
        self._job.applied_filters.extend(started.applied_filters)
        self.kept_media_type = started.kept_audio_media_type

    async def model_preparing(self, preparing: media_pb2.ModelPreparation) -> None:
        self._stage(job_pb2.STAGE_TRANSCRIPTION).preparing.CopyFrom(preparing)
        self._dirty = True

    async def model_ready(self, started: transcriber_pb.TranscribeStarted) -> None:
        self._stage(job_pb2.STAGE_TRANSCRIPTION).ClearField("preparing")
        self._dirty = True
        self._job.model, self._job.translation_model = started.model, started.translation_model
        begun = event_pb2.StartExecution(
            model=started.model, options=self._job.options, source=self._job.source
        )
        await self._story.tell(event_pb2.EVENT_TYPE_START_EXECUTION, start_execution=begun)

    async def moved(self, stage: StageId, progress: media_pb2.Progress) -> None:
        if progress.WhichOneof("amount") == "bytes":
            self._bytes = max(self._bytes, progress.bytes.done_bytes)
        elif stage == job_pb2.STAGE_NORMALIZATION and progress.media.HasField("total"):
            self._learn_length(progress.media)
        status = self._stage(stage)
        if _amount(progress) >= _amount(status.progress):
            status.progress.CopyFrom(progress)
            self._complete_total(status)
            self._dirty = True
        if stage == job_pb2.STAGE_TRANSCRIPTION:
            self._update_share()

    def _learn_length(self, progress: media_pb2.MediaProgress) -> None:
        """The source may not have known its length; the container does."""
        if not self._job.media.HasField("duration"):
            self._job.media.duration.CopyFrom(progress.total)

    def _complete_total(self, status: job_pb2.StageStatus) -> None:
        media = status.progress.media
        if status.progress.HasField("media") and self._job.media.HasField("duration"):
            media.total.CopyFrom(self._job.media.duration)

    def _update_share(self) -> None:
        total = self._job.media.duration.ToTimedelta().total_seconds()
        done = _amount(self._stage(job_pb2.STAGE_TRANSCRIPTION).progress)
        if total > 0:
            self._job.progress = max(self._job.progress, min(1.0, done / total))

    async def audio_kept(self, frame: bytes) -> None:
        self.kept_bytes += self._spool.write(frame)

    async def normalized(self, finished: normalizer_pb.NormalizeFinished) -> None:
        self._job.media.duration.CopyFrom(finished.duration)
        for message in finished.warnings:
            self._job.warnings.add(reason="MEDIA_DAMAGED", message=message)
        done = media_pb2.MediaProgress(done=finished.duration, total=finished.duration)
        await self.moved(job_pb2.STAGE_NORMALIZATION, media_pb2.Progress(media=done))

    async def captions_found(self, track: media_pb2.CaptionTrack) -> None:
        self._job.human_captions.CopyFrom(track)
        self._job.language = track.language
        # Before the first of them: a new attempt must know that it may not listen instead.
        await self._lease.save()

    async def captions_taken(self) -> None:
        duration = self._job.media.duration
        self.ended = transcriber_pb.TranscribeFinished(
            language=self._job.language, duration=duration
        )
        self.end_stage(job_pb2.STAGE_DOWNLOAD, job_pb2.STAGE_STATE_COMPLETED)
        await self._tell_stage(job_pb2.STAGE_DOWNLOAD)
        await self.tell_collected()

    async def heard(self, segment: media_pb2.Segment) -> None:
        if segment.index < self._segments:  # settled by an earlier attempt
            return
        self._segments = segment.index + 1
        self._job.segment_count = self._segments
        self._job.language = segment.language
        self._dirty = True
        SEGMENTS.inc()
        settled = event_pb2.SegmentSettled(segment=segment)
        await self._story.tell(event_pb2.EVENT_TYPE_SEGMENT_SETTLED, segment_settled=settled)

    async def finished(self, finished: transcriber_pb.TranscribeFinished) -> None:
        self.ended = finished
        self._job.language = finished.language or self._job.language
        self._job.language_out = finished.language_out or self._job.language_out
        if finished.HasField("language_probability"):
            self._job.language_probability = finished.language_probability
        done = media_pb2.MediaProgress(done=finished.duration, total=finished.duration)
        await self.moved(job_pb2.STAGE_TRANSCRIPTION, media_pb2.Progress(media=done))


def _amount(progress: media_pb2.Progress) -> float:
    if progress.WhichOneof("amount") == "bytes":
        return float(progress.bytes.done_bytes)
    return progress.media.done.ToTimedelta().total_seconds()
