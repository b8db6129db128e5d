"""gRPC servicer of the transcriber: maps frames to engine calls and events to messages."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.duration import from_timedelta
from structlog.contextvars import bind_contextvars

from mesh.frames import read_data, read_start
from mesh.messages import dataclass_from, message_from
from transcriber.engine import (
    Event,
    Finished,
    Phase,
    Preparing,
    Progress,
    Request,
    Segment,
    SpeechEngine,
    Started,
    Waiting,
)
from ytcaption.v1 import media_pb2 as media
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc

Context = grpc.aio.ServicerContext[Any, Any]
Frames = AsyncIterator[pb.TranscribeRequest]
Events = AsyncIterator[pb.TranscribeResponse]


class TranscriberServicer(rpc.TranscriberServiceServicer):
    """Maps between protobuf messages and a SpeechEngine."""

    def __init__(self, engine: SpeechEngine) -> None:
        self._engine = engine

    async def Transcribe(self, request_iterator: Frames, context: Context) -> Events:
        start: pb.TranscribeStart = await read_start(request_iterator)
        bind_contextvars(job_id=start.job_id)
        samples = read_data(request_iterator, "audio")
        events = self._engine.transcribe(samples, dataclass_from(Request, start))
        async with aclosing(events):  # a cancelled call must stop the engine at once
            async for event in events:
                yield _to_wire(event)

    async def GetModelState(
        self, request: pb.GetModelStateRequest, context: Context
    ) -> pb.GetModelStateResponse:
        state = self._engine.state()
        return pb.GetModelStateResponse(
            model=state.model,
            loaded=state.loaded,
            preparing=_preparation(state.preparing) if state.preparing else None,
        )

    async def ListModels(
        self, request: pb.ListModelsRequest, context: Context
    ) -> pb.ListModelsResponse:
        return pb.ListModelsResponse(
            models=[message_from(pb.Model, model) for model in await self._engine.models()],
            translations=[
                pb.Translation(
                    model=can.model, source_languages=can.sources, target_languages=can.targets
                )
                for can in self._engine.translations()
            ],
        )

    async def Purge(
        self, request: pb.TranscriberServicePurgeRequest, context: Context
    ) -> pb.TranscriberServicePurgeResponse:
        # The service stores only weights, and a purge keeps those.
        return pb.TranscriberServicePurgeResponse(files_removed=0, bytes_removed=0)


def _to_wire(event: Event) -> pb.TranscribeResponse:
    match event:
        case Preparing():
            return pb.TranscribeResponse(preparing=_preparation(event))
        case Started():
            return pb.TranscribeResponse(started=message_from(pb.TranscribeStarted, event))
        case Waiting():
            return pb.TranscribeResponse(waiting=media.SlotWait())
        case Segment():
            return pb.TranscribeResponse(segment=_segment(event))
        case Progress():
            done = from_timedelta(event.offset)
            return pb.TranscribeResponse(progress=media.MediaProgress(done=done))
        case Finished():
            return pb.TranscribeResponse(finished=message_from(pb.TranscribeFinished, event))


def _preparation(preparing: Preparing) -> media.ModelPreparation:
    if preparing.phase is Phase.LOADING:
        return media.ModelPreparation(model=preparing.model, phase=media.PREPARATION_PHASE_LOADING)
    return media.ModelPreparation(
        model=preparing.model,
        phase=media.PREPARATION_PHASE_FETCHING,
        fetched=media.ByteProgress(
            done_bytes=preparing.done_bytes, total_bytes=preparing.total_bytes
        ),
    )


def _segment(segment: Segment) -> media.Segment:
    return media.Segment(
        index=segment.index,
        start_offset=from_timedelta(segment.start),
        end_offset=from_timedelta(segment.end),
        text=segment.text,
        words=[
            media.Word(
                start_offset=from_timedelta(word.start),
                end_offset=from_timedelta(word.end),
                text=word.text,
                confidence=word.confidence,
            )
            for word in segment.words
        ],
        confidence=segment.confidence,
        language=segment.language,
        settled_offset=from_timedelta(segment.settled_offset),
        translation=segment.translation,
        uncertain=segment.uncertain,
    )
