"""gRPC face of the downloader: requests in, engine calls, events out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.duration import from_timedelta, to_timedelta
from structlog.contextvars import bind_contextvars

from downloader.engine import Chunk, Done, Event, FetchEngine, Found, Limits, Moved
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
        fetching = self._engine.fetch(request.source_url, _limits(request, self._ceiling))
        async with aclosing(fetching) as events:  # a cancelled call must stop the engine at once
            async for event in events:
                yield _to_wire(event)

    async def Purge(
        self, request: pb.DownloaderServicePurgeRequest, context: Context
    ) -> pb.DownloaderServicePurgeResponse:
        removed = await asyncio.to_thread(self._engine.purge, dry_run=request.dry_run)
        return pb.DownloaderServicePurgeResponse(
            files_removed=removed.files, bytes_removed=removed.bytes
        )


def downloader_service(engine: FetchEngine, ceiling: Limits) -> Service:
    """The service, ready to be served; what nobody has filled in answers UNIMPLEMENTED."""
    return Service.of(
        pb.DESCRIPTOR.services_by_name["DownloaderService"],
        rpc.add_DownloaderServiceServicer_to_server,
        DownloaderServicer(engine, ceiling),  # type: ignore[abstract] # Resolve is not built yet
    )


def _limits(request: pb.DownloadRequest, ceiling: Limits) -> Limits:
    wanted = Limits(
        max_bytes=request.max_bytes or ceiling.max_bytes,
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
                )
            )
        case Done():
            return pb.DownloadResponse(finished=pb.DownloadFinished(size_bytes=event.size_bytes))


def _media(found: Found) -> media.MediaInfo:
    return media.MediaInfo(
        media_id=found.media_id,
        title=found.title,
        uploader=found.uploader,
        duration=None if found.duration is None else from_timedelta(found.duration),
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
