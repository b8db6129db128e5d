"""gRPC face of the normalizer: frames in, engine calls, events out."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing

import grpc
from google.protobuf.duration import from_timedelta
from structlog.contextvars import bind_contextvars

from mesh.frames import read_data, read_start
from normalizer.engine import (
    Event,
    Filter,
    Finished,
    Kept,
    NormalizerEngine,
    Options,
    Progress,
    Request,
    Samples,
    Started,
    Storage,
    Target,
)
from ytcaption.v1 import media_pb2 as media
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

Frames = AsyncIterator[pb.NormalizeRequest]
Events = AsyncIterator[pb.NormalizeResponse]

_TARGETS = {
    Target.KEPT_AUDIO: media.FILTER_TARGET_KEPT_AUDIO,
    Target.TRANSCRIBER: media.FILTER_TARGET_TRANSCRIBER,
    Target.BOTH: media.FILTER_TARGET_BOTH,
}


class NormalizerServicer(rpc.NormalizerServiceServicer):
    """Translates between the wire and a NormalizerEngine; decides nothing itself."""

    def __init__(self, engine: NormalizerEngine, storage: Storage) -> None:
        self._engine = engine
        self._storage = storage

    async def Normalize(
        self, request_iterator: Frames, context: grpc.aio.ServicerContext[Frames, Events]
    ) -> Events:
        start: pb.NormalizeStart = await read_start(request_iterator)
        bind_contextvars(job_id=start.job_id)
        chunks = read_data(request_iterator, "chunk")
        normalizing = self._engine.normalize(chunks, _from_wire(start))
        async with aclosing(normalizing) as events:  # a cancelled call must stop ffmpeg at once
            async for event in events:
                yield _to_wire(event)

    async def GetCapabilities(
        self,
        request: pb.GetCapabilitiesRequest,
        context: grpc.aio.ServicerContext[
            pb.GetCapabilitiesRequest, Awaitable[pb.GetCapabilitiesResponse]
        ],
    ) -> pb.GetCapabilitiesResponse:
        found = await self._engine.capabilities()
        return pb.GetCapabilitiesResponse(
            capabilities=[
                pb.OptionCapability(
                    option=each.option, honoured=not each.why_not, why_not=each.why_not
                )
                for each in found
            ]
        )

    async def Purge(
        self,
        request: pb.NormalizerServicePurgeRequest,
        context: grpc.aio.ServicerContext[
            pb.NormalizerServicePurgeRequest, Awaitable[pb.NormalizerServicePurgeResponse]
        ],
    ) -> pb.NormalizerServicePurgeResponse:
        purged = await self._storage.purge(dry_run=request.dry_run)
        return pb.NormalizerServicePurgeResponse(
            files_removed=purged.files, bytes_removed=purged.size
        )


def _from_wire(start: pb.NormalizeStart) -> Request:
    asked = start.options
    return Request(
        options=Options(
            remove_noise=asked.remove_noise,
            convert_to_mono=asked.convert_to_mono,
            apply_highpass_filter=asked.apply_highpass_filter,
            set_sample_rate_16k=asked.set_sample_rate_16k,
            isolate_vocals=asked.isolate_vocals,
            loudness_lufs=asked.loudness_lufs if asked.HasField("loudness_lufs") else None,
        ),
        keep_audio=start.keep_audio,
        max_duration=(start.max_duration.ToTimedelta() if start.HasField("max_duration") else None),
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
        case Samples():
            return pb.NormalizeResponse(samples=event.data)
        case Kept():
            return pb.NormalizeResponse(kept_audio=event.data)
        case Progress():
            total = None if event.total is None else from_timedelta(event.total)
            return pb.NormalizeResponse(
                progress=media.MediaProgress(done=from_timedelta(event.done), total=total)
            )
        case Finished():
            return pb.NormalizeResponse(
                finished=pb.NormalizeFinished(
                    duration=from_timedelta(event.duration),
                    kept_audio_bytes=event.kept_bytes,
                    warnings=event.warnings,
                )
            )


def _filter_to_wire(applied: Filter) -> media.AppliedFilter:
    return media.AppliedFilter(
        name=applied.name,
        parameters=applied.parameters,
        target=_TARGETS[applied.target],
        option=applied.option,
    )
