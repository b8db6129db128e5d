"""The gRPC servicer of the normalizer: maps frames to engine calls and events to responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from structlog.contextvars import bind_contextvars

from mesh.frames import read_data, read_start
from mesh.messages import dataclass_from, message_from
from normalizer.engine import (
    Event,
    Filter,
    Finished,
    KeptAudio,
    Options,
    Progress,
    Request,
    Samples,
    Started,
    Target,
    Waiting,
)
from normalizer.ffmpeg_engine import FfmpegEngine
from normalizer.spool import Spool
from ytcaption.v1 import media_pb2 as media
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

Context = grpc.aio.ServicerContext[Any, Any]
Frames = AsyncIterator[pb.NormalizeRequest]
Responses = AsyncIterator[pb.NormalizeResponse]

_TARGETS = {
    Target.KEPT_AUDIO: media.FILTER_TARGET_KEPT_AUDIO,
    Target.TRANSCRIBER: media.FILTER_TARGET_TRANSCRIBER,
    Target.BOTH: media.FILTER_TARGET_BOTH,
}


class NormalizerServicer(rpc.NormalizerServiceServicer):
    """Translates between the wire and the engine; decides nothing itself."""

    def __init__(self, engine: FfmpegEngine, spool: Spool) -> None:
        self._engine = engine
        self._spool = spool

    async def Normalize(self, request_iterator: Frames, context: Context) -> Responses:
        start: pb.NormalizeStart = await read_start(request_iterator)
        bind_contextvars(job_id=start.job_id)
        chunks = read_data(request_iterator, "chunk")
        options = dataclass_from(Options, start.options)
        request = dataclass_from(Request, start, options=options)
        normalizing = self._engine.normalize(chunks, request)
        async with aclosing(normalizing) as events:  # a cancelled call stops ffmpeg at once
            async for event in events:
                yield _to_wire(event)

    async def GetCapabilities(
        self, request: pb.GetCapabilitiesRequest, context: Context
    ) -> pb.GetCapabilitiesResponse:
        found = await self._engine.capabilities.all()
        return pb.GetCapabilitiesResponse(
            capabilities=[
                pb.OptionCapability(option=option, honoured=not why_not, why_not=why_not)
                for option, why_not in found.items()
            ]
        )

    async def Purge(
        self, request: pb.NormalizerServicePurgeRequest, context: Context
    ) -> pb.NormalizerServicePurgeResponse:
        purged = await asyncio.to_thread(self._spool.scratch.purge, dry_run=request.dry_run)
        return pb.NormalizerServicePurgeResponse(
            files_removed=purged.files, bytes_removed=purged.bytes
        )


def _to_wire(event: Event) -> pb.NormalizeResponse:
    match event:
        case Started():
            return pb.NormalizeResponse(
                started=pb.NormalizeStarted(
                    applied_filters=[_filter_to_wire(each) for each in event.filters],
                    kept_audio_media_type=event.media_type,
                )
            )
        case Waiting():
            return pb.NormalizeResponse(waiting=media.SlotWait())
        case Samples():
            return pb.NormalizeResponse(samples=event.data)
        case KeptAudio():
            return pb.NormalizeResponse(kept_audio=event.data)
        case Progress():
            return pb.NormalizeResponse(progress=message_from(media.MediaProgress, event))
        case Finished():
            return pb.NormalizeResponse(finished=message_from(pb.NormalizeFinished, event))


def _filter_to_wire(applied: Filter) -> media.AppliedFilter:
    return media.AppliedFilter(
        name=applied.name,
        parameters=applied.parameters,
        target=_TARGETS[applied.target],
        option=applied.option,
    )
