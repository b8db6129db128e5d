"""gRPC face of the transcriber: frames in, engine calls, events out."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing

import grpc
from google.protobuf.duration import from_timedelta, to_timedelta
from structlog.contextvars import bind_contextvars

from mesh.frames import read_data, read_start
from transcriber.engine import (
    Event,
    Heard,
    Phase,
    Preparing,
    Reached,
    Ready,
    Request,
    SpeechEngine,
    Spoken,
)
from ytcaption.v1 import media_pb2 as media
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc

Frames = AsyncIterator[pb.TranscribeRequest]
Events = AsyncIterator[pb.TranscribeResponse]


class TranscriberServicer(rpc.TranscriberServiceServicer):
    """Translates between the wire and a SpeechEngine; decides nothing itself."""

    def __init__(self, engine: SpeechEngine) -> None:
        self._engine = engine

    async def Transcribe(
        self, request_iterator: Frames, context: grpc.aio.ServicerContext[Frames, Events]
    ) -> Events:
        start: pb.TranscribeStart = await read_start(request_iterator)
        bind_contextvars(job_id=start.job_id)
        heard = self._engine.transcribe(read_data(request_iterator, "audio"), _request(start))
        async with aclosing(heard) as events:  # a cancelled call must stop the engine at once
            async for event in events:
                yield _to_wire(event)

    async def GetModelState(
        self,
        request: pb.GetModelStateRequest,
        context: grpc.aio.ServicerContext[
            pb.GetModelStateRequest, Awaitable[pb.GetModelStateResponse]
        ],
    ) -> pb.GetModelStateResponse:
        state = self._engine.state()
        return pb.GetModelStateResponse(
            model=state.model,
            loaded=state.loaded,
            preparing=_preparation(state.preparing) if state.preparing else None,
        )

    async def ListModels(
        self,
        request: pb.ListModelsRequest,
        context: grpc.aio.ServicerContext[pb.ListModelsRequest, Awaitable[pb.ListModelsResponse]],
    ) -> pb.ListModelsResponse:
        return pb.ListModelsResponse(
            models=[
                pb.Model(
                    name=model.name,
                    languages=model.languages,
                    loaded=model.loaded,
                    selected=model.selected,
                )
                for model in await self._engine.models()
            ],
            translations=[
                pb.Translation(
                    model=can.model, source_languages=can.sources, target_languages=can.targets
                )
                for can in self._engine.translations()
            ],
        )

    async def Purge(
        self,
        request: pb.TranscriberServicePurgeRequest,
        context: grpc.aio.ServicerContext[
            pb.TranscriberServicePurgeRequest, Awaitable[pb.TranscriberServicePurgeResponse]
        ],
    ) -> pb.TranscriberServicePurgeResponse:
        # Nothing is kept between calls but weights, and those stay.
        return pb.TranscriberServicePurgeResponse(files_removed=0, bytes_removed=0)


def _request(start: pb.TranscribeStart) -> Request:
    return Request(
        language=start.language,
        language_out=start.language_out,
        word_timestamps=start.word_timestamps,
        initial_prompt=start.initial_prompt,
        beam_size=start.beam_size,
        settled_offset=to_timedelta(start.settled_offset),
        next_index=start.next_index,
        hotwords=start.hotwords,
        mixed_languages=start.mixed_languages,
    )


def _to_wire(event: Event) -> pb.TranscribeResponse:
    match event:
        case Preparing():
            return pb.TranscribeResponse(preparing=_preparation(event))
        case Ready():
            return pb.TranscribeResponse(
                started=pb.TranscribeStarted(
                    model=event.model,
                    device=event.device,
                    compute_type=event.compute_type,
                    translation_model=event.translation_model,
                )
            )
        case Spoken():
            return pb.TranscribeResponse(segment=_segment(event))
        case Reached():
            done = from_timedelta(event.offset)
            return pb.TranscribeResponse(progress=media.MediaProgress(done=done))
        case Heard():
            return pb.TranscribeResponse(
                finished=pb.TranscribeFinished(
                    language=event.language,
                    language_probability=event.language_probability,
                    duration=from_timedelta(event.duration),
                    speech_duration=from_timedelta(event.speech_duration),
                    language_out=event.language_out,
                )
            )


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


def _segment(spoken: Spoken) -> media.Segment:
    return media.Segment(
        index=spoken.index,
        start_offset=from_timedelta(spoken.start),
        end_offset=from_timedelta(spoken.end),
        text=spoken.text,
        words=[
            media.Word(
                start_offset=from_timedelta(word.start),
                end_offset=from_timedelta(word.end),
                text=word.text,
                confidence=word.confidence,
            )
            for word in spoken.words
        ],
        confidence=spoken.confidence,
        language=spoken.language,
        settled_offset=from_timedelta(spoken.settled_offset),
        translation=spoken.translation,
    )
