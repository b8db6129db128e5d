"""Transcribes what a caller is still sending: the same pipeline, no job, nothing stored."""

import asyncio
from collections.abc import AsyncGenerator

from mesh.errors import UnsupportedError
from mesh.messages import copy_shared
from mesh.reasons import Reason
from mesh.tasks import stop
from orchestrator.pipeline.pipeline import Pipeline
from orchestrator.pipeline.request import PipelineRequest
from orchestrator.pipeline.sink import Sink
from orchestrator.pipeline.stages import StageError, StageId, reset_stages, stage_status
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

Response = pb.TranscribeStreamResponse


async def transcribe_live(
    pipeline: Pipeline, request: PipelineRequest
) -> AsyncGenerator[Response, None]:
    """Yields progress and segments as they come; closing it stops every stage."""
    if request.options.HasField("cue_rules"):
        raise UnsupportedError(
            "cue_rules are for jobs: a stream has segments, not cues",
            reason=Reason.OPTION_UNSUPPORTED,
        )
    sink = _LiveSink(request.job_id)
    running = asyncio.create_task(_run(pipeline, request, sink))
    try:
        while (response := await sink.responses.get()) is not None:
            yield response
        await running
    except StageError as error:
        raise error.error from error
    finally:
        await stop(running)


def heard_seconds(response: Response) -> float:
    """How much of the stream was transcribed when this was sent; 0 if the response says nothing."""
    heard = response.finished.duration
    for stage in response.progress.stages:
        if stage.stage == job_pb2.STAGE_TRANSCRIPTION:
            heard = stage.progress.media.done
    return heard.ToTimedelta().total_seconds()


async def _run(pipeline: Pipeline, request: PipelineRequest, sink: "_LiveSink") -> None:
    try:
        await pipeline.run(request, sink)
    except Exception:
        await sink.responses.put(None)
        raise
    await sink.responses.put(None)


class _LiveSink(Sink):
    """The pipeline's sink for one call: a short queue, so that a slow caller slows it down.

    Takes only what the caller does not know: not its media, and there is no job to keep the rest.
    """

    def __init__(self, job_id: str) -> None:
        self.responses: asyncio.Queue[Response | None] = asyncio.Queue(16)
        self._job = job_pb2.Job(job_id=job_id)
        self._model = ""
        reset_stages(self._job)

    async def stage_started(self, stage: StageId) -> None:
        stage_status(self._job, stage).state = job_pb2.STAGE_STATE_RUNNING

    async def stage_completed(self, stage: StageId) -> None:
        stage_status(self._job, stage).state = job_pb2.STAGE_STATE_COMPLETED

    async def model_preparing(self, preparing: media_pb2.ModelPreparation) -> None:
        stage_status(self._job, job_pb2.STAGE_TRANSCRIPTION).preparing.CopyFrom(preparing)
        await self._send_progress()

    async def model_ready(self, started: transcriber_pb.TranscribeStarted) -> None:
        stage_status(self._job, job_pb2.STAGE_TRANSCRIPTION).ClearField("preparing")
        self._model = started.model

    async def progressed(self, stage: StageId, progress: media_pb2.Progress) -> None:
        stage_status(self._job, stage).progress.CopyFrom(progress)
        # The caller counts its own bytes.
        if stage != job_pb2.STAGE_DOWNLOAD:
            await self._send_progress()

    async def _send_progress(self) -> None:
        live = job_pb2.JobProgress(job_id=self._job.job_id, stages=self._job.stages)
        await self.responses.put(Response(progress=live))

    async def segment_settled(self, segment: media_pb2.Segment) -> None:
        await self.responses.put(Response(segment=segment))

    async def finished(self, finished: transcriber_pb.TranscribeFinished) -> None:
        whole = media_pb2.Transcript(model=self._model)
        copy_shared(finished, whole)
        await self.responses.put(Response(finished=whole))
