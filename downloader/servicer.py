"""gRPC face of the downloader: requests in, engine calls, events out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import grpc
from google.protobuf.duration import from_timedelta, to_timedelta
from google.protobuf.duration_pb2 import Duration
from structlog.contextvars import bind_contextvars

from downloader.engine import (
    CaptionEvent,
    Chunk,
    Cue,
    Done,
    Event,
    FetchEngine,
    Found,
    Limits,
    Moved,
    Read,
    Search,
    Track,
    Wishes,
)
from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from mesh.server import Service
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc
from ytcaption.v1 import media_pb2 as media

Context = grpc.aio.ServicerContext[Any, Any]


class DownloaderServicer(rpc.DownloaderServiceServicer):
    """Translates between the wire and a FetchEngine; decides nothing itself."""

    def __init__(self, engine: FetchEngine, ceiling: Limits) -> None:
        self._engine = engine
        self._ceiling = ceiling

    async def Download(
        self, request: pb.DownloadRequest, context: Context
    ) -> AsyncIterator[pb.DownloadResponse]:
        bind_contextvars(job_id=request.job_id)
        limits = _limits(request, self._ceiling, request.max_bytes)
        fetching = self._engine.fetch(request.source_url, limits, _wishes(request.options))
        async with aclosing(fetching) as events:  # a cancelled call must stop the engine at once
            async for event in events:
                yield _to_wire(event)

    async def Resolve(
        self, request: pb.ResolveRequest, context: Context
    ) -> AsyncIterator[pb.ResolveResponse]:
        if request.max_videos < 0:
            raise InvalidRequestError("max_videos is negative", reason=Reason.REQUEST_INVALID)
        search = Search(
            request.source_url,
            request.max_videos,
            request.from_date,
            request.to_date,
            request.period,
        )
        resolving = self._engine.resolve(search, _wishes(request.options))
        async with aclosing(resolving) as videos:
            async for video in videos:
                yield pb.ResolveResponse(source_url=video.source_url, media=_media(video.media))

    async def FetchCaptions(
        self, request: pb.FetchCaptionsRequest, context: Context
    ) -> AsyncIterator[pb.FetchCaptionsResponse]:
        bind_contextvars(job_id=request.job_id)
        languages = tuple(request.languages)
        limits, wishes = _limits(request, self._ceiling), _wishes(request.options)
        reading = self._engine.captions(request.source_url, languages, limits, wishes)
        index = 0
        async with aclosing(reading) as events:
            async for event in events:
                yield _caption_to_wire(event, index)
                index += isinstance(event, Cue)

    async def Purge(
        self, request: pb.DownloaderServicePurgeRequest, context: Context
    ) -> pb.DownloaderServicePurgeResponse:
        removed = await asyncio.to_thread(self._engine.purge, dry_run=request.dry_run)
        return pb.DownloaderServicePurgeResponse(
            files_removed=removed.files, bytes_removed=removed.bytes
        )


def downloader_service(engine: FetchEngine, ceiling: Limits) -> Service:
    """The service, ready to be served."""
    return Service.of(
        pb.DESCRIPTOR.services_by_name["DownloaderService"],
        rpc.add_DownloaderServiceServicer_to_server,
        DownloaderServicer(engine, ceiling),
    )


def _limits(
    request: pb.DownloadRequest | pb.FetchCaptionsRequest, ceiling: Limits, max_bytes: int = 0
) -> Limits:
    wanted = Limits(
        max_bytes=max_bytes or ceiling.max_bytes,
        max_duration=(
            to_timedelta(request.max_duration)
            if request.HasField("max_duration")
            else ceiling.max_duration
        ),
    )
    if wanted.max_duration.total_seconds() <= 0:
        raise InvalidRequestError(
            "max_duration must be more than nothing", reason=Reason.REQUEST_INVALID
        )
    return wanted.within(ceiling)


def _wishes(options: media.DownloadOptions) -> Wishes:
    return Wishes(
        user_agent=options.user_agent,
        max_bytes_per_second=options.max_bytes_per_second,
        request_interval=to_timedelta(options.request_interval),
        proxy=options.proxy,
    )


def _to_wire(event: Event) -> pb.DownloadResponse:
    match event:
        case Found():
            return pb.DownloadResponse(media=_media(event))
        case Chunk():
            return pb.DownloadResponse(chunk=event.data)
        case Moved():
            return pb.DownloadResponse(
                progress=media.ByteProgress(
                    done_bytes=event.done_bytes,
                    total_bytes=event.total_bytes,
                    bytes_per_second=event.bytes_per_second,
                    remaining=_duration(event.remaining),
                )
            )
        case Done():
            return pb.DownloadResponse(finished=pb.DownloadFinished(size_bytes=event.size_bytes))


def _caption_to_wire(event: CaptionEvent, index: int) -> pb.FetchCaptionsResponse:
    match event:
        case Found():
            return pb.FetchCaptionsResponse(media=_media(event))
        case Track():
            track = media.CaptionTrack(language=event.language, name=event.name)
            return pb.FetchCaptionsResponse(track=track)
        case Cue():
            end = from_timedelta(event.end)
            segment = media.Segment(
                index=index,
                start_offset=from_timedelta(event.start),
                end_offset=end,
                text=event.text,
                language=event.language,
                settled_offset=end,
            )
            return pb.FetchCaptionsResponse(segment=segment)
        case Read():
            finished = pb.CaptionsFinished(found=event.found, segments=event.cues)
            return pb.FetchCaptionsResponse(finished=finished)


def _duration(length: timedelta | None) -> Duration | None:
    return None if length is None else from_timedelta(length)


def _media(found: Found) -> media.MediaInfo:
    return media.MediaInfo(
        media_id=found.media_id,
        title=found.title,
        uploader=found.uploader,
        duration=_duration(found.duration),
        upload_date=found.upload_date,
        thumbnail_url=found.thumbnail_url,
        webpage_url=found.webpage_url,
        extractor=found.extractor,
        container=found.container,
        chapters=[
            media.Chapter(
                start_offset=from_timedelta(chapter.start),
                end_offset=from_timedelta(chapter.end),
                title=chapter.title,
            )
            for chapter in found.chapters
        ],
    )
