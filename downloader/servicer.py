"""The gRPC servicer of the downloader: maps requests to engine calls and events to responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import grpc
from google.protobuf.duration import to_timedelta
from structlog.contextvars import bind_contextvars

from downloader.engine import (
    ByteProgress,
    CaptionEvent,
    CaptionsFinished,
    CaptionTrack,
    Cue,
    DownloadEvent,
    DownloadFinished,
    DownloadOptions,
    MediaInfo,
    MediaLimits,
    Waiting,
)
from downloader.ytdlp_engine import YtDlpEngine
from mesh.errors import InvalidRequestError
from mesh.messages import dataclass_from, message_from
from mesh.period import wanted_days
from mesh.server import Service
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc
from ytcaption.v1 import media_pb2 as media

Context = grpc.aio.ServicerContext[Any, Any]


class DownloaderServicer(rpc.DownloaderServiceServicer):
    """Translates between the wire and the engine; decides nothing itself."""

    def __init__(self, engine: YtDlpEngine, ceiling: MediaLimits) -> None:
        self._engine = engine
        self._ceiling = ceiling

    async def Download(
        self, request: pb.DownloadRequest, context: Context
    ) -> AsyncIterator[pb.DownloadResponse]:
        bind_contextvars(job_id=request.job_id)
        limits = _limits(request, self._ceiling, request.max_bytes)
        options = dataclass_from(DownloadOptions, request.options)
        downloading = self._engine.download(request.source_url, limits, options)
        async with aclosing(downloading) as events:  # a cancelled call stops the engine at once
            async for event in events:
                yield _to_wire(event)

    async def Resolve(
        self, request: pb.ResolveRequest, context: Context
    ) -> AsyncIterator[pb.ResolveResponse]:
        if request.max_videos < 0:
            raise InvalidRequestError("max_videos is negative")
        days = wanted_days(request.from_date, request.to_date, request.period)
        options = dataclass_from(DownloadOptions, request.options)
        resolving = self._engine.resolve(request.source_url, days, request.max_videos, options)
        async with aclosing(resolving) as videos:
            async for source_url, info in videos:
                yield pb.ResolveResponse(source_url=source_url, media=_media(info))

    async def FetchCaptions(
        self, request: pb.FetchCaptionsRequest, context: Context
    ) -> AsyncIterator[pb.FetchCaptionsResponse]:
        bind_contextvars(job_id=request.job_id)
        languages = tuple(request.languages)
        limits = _limits(request, self._ceiling)
        options = dataclass_from(DownloadOptions, request.options)
        fetching = self._engine.fetch_captions(request.source_url, languages, limits, options)
        index = 0
        async with aclosing(fetching) as events:
            async for event in events:
                yield _caption_to_wire(event, index)
                index += isinstance(event, Cue)

    async def Purge(
        self, request: pb.DownloaderServicePurgeRequest, context: Context
    ) -> pb.DownloaderServicePurgeResponse:
        removed = await asyncio.to_thread(self._engine.scratch.purge, dry_run=request.dry_run)
        return pb.DownloaderServicePurgeResponse(
            files_removed=removed.files, bytes_removed=removed.bytes
        )


def downloader_service(engine: YtDlpEngine, ceiling: MediaLimits) -> Service:
    """The service, ready to register with a server."""
    return Service.of(
        pb.DESCRIPTOR.services_by_name["DownloaderService"],
        rpc.add_DownloaderServiceServicer_to_server,
        DownloaderServicer(engine, ceiling),
    )


def _limits(
    request: pb.DownloadRequest | pb.FetchCaptionsRequest, ceiling: MediaLimits, max_bytes: int = 0
) -> MediaLimits:
    max_duration = ceiling.max_duration
    if request.HasField("max_duration"):
        max_duration = to_timedelta(request.max_duration)
    if max_duration <= timedelta(0):
        raise InvalidRequestError("max_duration must be positive")
    return MediaLimits(max_bytes or ceiling.max_bytes, max_duration).within(ceiling)


def _to_wire(event: DownloadEvent) -> pb.DownloadResponse:
    match event:
        case Waiting():
            return pb.DownloadResponse(waiting=media.SlotWait())
        case MediaInfo():
            return pb.DownloadResponse(media=_media(event))
        case bytes():
            return pb.DownloadResponse(chunk=event)
        case ByteProgress():
            progress = message_from(media.ByteProgress, event, remaining=event.remaining)
            return pb.DownloadResponse(progress=progress)
        case DownloadFinished():
            return pb.DownloadResponse(finished=message_from(pb.DownloadFinished, event))


def _caption_to_wire(event: CaptionEvent, index: int) -> pb.FetchCaptionsResponse:
    match event:
        case Waiting():
            return pb.FetchCaptionsResponse(waiting=media.SlotWait())
        case MediaInfo():
            return pb.FetchCaptionsResponse(media=_media(event))
        case CaptionTrack():
            return pb.FetchCaptionsResponse(track=message_from(media.CaptionTrack, event))
        case Cue():
            settled = event.end_offset
            segment = message_from(media.Segment, event, index=index, settled_offset=settled)
            return pb.FetchCaptionsResponse(segment=segment)
        case CaptionsFinished():
            return pb.FetchCaptionsResponse(finished=message_from(pb.CaptionsFinished, event))


def _media(info: MediaInfo) -> media.MediaInfo:
    chapters = [message_from(media.Chapter, chapter) for chapter in info.chapters]
    return message_from(media.MediaInfo, info, chapters=chapters)
