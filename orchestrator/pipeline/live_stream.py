"""Transcribing what a caller is still sending: the same pipeline, no job, nothing stored."""

import asyncio
from collections.abc import AsyncGenerator

from mesh.errors import UnsupportedError
from mesh.reasons import Reason
from mesh.tasks import stop
from orchestrator.ending import reset_stages
from orchestrator.pipeline import Pipeline
from orchestrator.stages import StageError, StageId
from orchestrator.task import Task
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

Response = pb.TranscribeStreamResponse


async def transcribe_live(pipeline: Pipeline, task: Task) -> AsyncGenerator[Response, None]:
    """What is heard, as it is heard; closing it stops every stage."""
    if task.options.HasField("cue_rules"):
        raise UnsupportedError(
            "a stream has segments, no cues: cue_rules are for jobs",
            reason=Reason.OPTION_UNSUPPORTED,
        )
    sink = _LiveSink(task.job_id)
    running = asyncio.create_task(_run(pipeline, task, sink))
    try:
        while (response := await sink.responses.get()) is not None:
            yield response
        await running
    except StageError as error:
        raise error.error from error
    finally:
        await stop(running)


async def _run(pipeline: Pipeline, task: Task, sink: "_LiveSink") -> None:
    try:
        await pipeline.run(task, sink)
    except Exception:
        await sink.responses.put(None)
        raise
    await sink.responses.put(None)


class _LiveSink:
    """The pipeline's sink for one call: a short queue, so that a slow caller slows it down."""

    def __init__(self, job_id: str) -> None:
        self.responses: asyncio.Queue[Response | None] = asyncio.Queue(16)
        self._job = job_pb2.Job(job_id=job_id)
        self._model = ""
        reset_stages(self._job)

    async def stage_started(self, stage: StageId) -> None:
        self._job.stages[stage - 1].state = job_pb2.STAGE_STATE_RUNNING

    async def stage_completed(self, stage: StageId) -> None:
        self._job.stages[stage - 1].state = job_pb2.STAGE_STATE_COMPLETED

    async def media_found(self, media: media_pb2.MediaInfo) -> None:
        """The caller knows it."""

    async def filters_chosen(self, started: normalizer_pb.NormalizeStarted) -> None:
        """No job keeps them."""

    async def model_preparing(self, preparing: media_pb2.ModelPreparation) -> None:
        self._job.stages[job_pb2.STAGE_TRANSCRIPTION - 1].preparing.CopyFrom(preparing)
        await self._show()

    async def model_ready(self, started: transcriber_pb.TranscribeStarted) -> None:
        self._job.stages[job_pb2.STAGE_TRANSCRIPTION - 1].ClearField("preparing")
        self._model = started.model

    async def moved(self, stage: StageId, progress: media_pb2.Progress) -> None:
        self._job.stages[stage - 1].progress.CopyFrom(progress)
        # The caller counts its own bytes.
        if stage != job_pb2.STAGE_DOWNLOAD:
            await self._show()

    async def _show(self) -> None:
        live = job_pb2.JobProgress(job_id=self._job.job_id, stages=self._job.stages)
        await self.responses.put(Response(progress=live))

    async def audio_kept(self, frame: bytes) -> None:
        """None was asked for."""

    async def normalized(self, finished: normalizer_pb.NormalizeFinished) -> None:
        """The transcriber's end says the same."""

    async def captions_found(self, track: media_pb2.CaptionTrack) -> None:
        """Streams have none."""

    async def captions_taken(self) -> None:
        """Streams have none."""

    async def heard(self, segment: media_pb2.Segment) -> None:
        await self.responses.put(Response(segment=segment))

    async def finished(self, finished: transcriber_pb.TranscribeFinished) -> None:
        whole = media_pb2.Transcript(
            language=finished.language,
            duration=finished.duration,
            model=self._model,
            language_out=finished.language_out,
        )
        if finished.HasField("language_probability"):
            whole.language_probability = finished.language_probability
        await self.responses.put(Response(finished=whole))
