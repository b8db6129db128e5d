"""gRPC face of collections: requests in, engine calls, messages out."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from structlog.contextvars import bind_contextvars

from mesh.correlation import adopt
from orchestrator.collections.control import CollectionControl
from orchestrator.collections.feed import Change, CollectionFeeds
from orchestrator.collections.reading import CollectionReading
from orchestrator.collections.reporting import Reporting
from orchestrator.collections.shelf import CollectionShelf, WantedCollections
from orchestrator.collections.submission import Collections
from orchestrator.live_pages import LivePages
from orchestrator.options import check_word
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import collection_service_pb2_grpc as rpc


@dataclass(frozen=True, slots=True)
class CollectionEngines:
    """Everything the servicer hands requests to."""

    submission: Collections
    reading: CollectionReading
    shelf: CollectionShelf
    live_pages: LivePages
    feeds: CollectionFeeds
    control: CollectionControl
    reporting: Reporting


class CollectionServicer(rpc.CollectionServiceServicer):
    """Translates between the wire and the engines; decides nothing itself."""

    def __init__(self, engines: CollectionEngines) -> None:
        self._engines = engines

    async def CreateCollection(
        self, request: pb.CreateCollectionRequest, context: Any
    ) -> pb.CreateCollectionResponse:
        if check_word(request.correlation_id, "correlation_id"):
            adopt(request.correlation_id)
        collection = await self._engines.submission.create(request)
        return pb.CreateCollectionResponse(collection=collection)

    async def GetCollection(
        self, request: pb.GetCollectionRequest, context: Any
    ) -> pb.GetCollectionResponse:
        page = await self._engines.reading.page(
            request.collection_id, request.page_size, request.page_token
        )
        return pb.GetCollectionResponse(
            collection=page.collection, members=page.members, next_page_token=page.next_token
        )

    async def ListCollections(
        self, request: pb.ListCollectionsRequest, context: Any
    ) -> pb.ListCollectionsResponse:
        page = await self._engines.shelf.page(request.page_size, request.page_token)
        return pb.ListCollectionsResponse(
            collections=page.collections, next_page_token=page.next_token
        )

    async def WatchCollections(
        self, request: pb.WatchCollectionsRequest, context: Any
    ) -> AsyncIterator[pb.WatchCollectionsResponse]:
        wanted = WantedCollections.checked(request.page_size, request.page_token)
        watch = self._engines.live_pages.watch(self._engines.shelf.look, wanted)
        async with aclosing(watch) as pages:
            async for page in pages:
                yield pb.WatchCollectionsResponse(
                    collections=page.collections, next_page_token=page.next_token
                )

    async def WatchCollection(
        self, request: pb.WatchCollectionRequest, context: Any
    ) -> AsyncIterator[pb.WatchCollectionResponse]:
        bind_contextvars(collection_id=request.collection_id)
        found = (await self._engines.reading.page(request.collection_id, 0, "")).collection
        async with self._engines.feeds.of(found.collection_id) as feed:
            await feed.read_stored()
            # A collection without a story has outlived it.
            yield pb.WatchCollectionResponse(collection=found if feed.empty else feed.collection)
            follow = not (found.settled and feed.empty)
            watch = feed.watch(request.after_sequence, follow=follow)
            async with aclosing(watch) as updates:
                async for update in updates:
                    if isinstance(update, Change):
                        yield update.response
                    else:
                        yield pb.WatchCollectionResponse(progress=update)

    async def CancelCollection(
        self, request: pb.CancelCollectionRequest, context: Any
    ) -> pb.CancelCollectionResponse:
        bind_contextvars(collection_id=request.collection_id)
        collection = await self._engines.control.cancel(request.collection_id, request.note)
        return pb.CancelCollectionResponse(collection=collection)

    async def DeleteCollection(
        self, request: pb.DeleteCollectionRequest, context: Any
    ) -> pb.DeleteCollectionResponse:
        bind_contextvars(collection_id=request.collection_id)
        removed = await self._engines.control.delete(request.collection_id)
        return pb.DeleteCollectionResponse(jobs_removed=removed)

    async def GetReport(
        self, request: pb.GetReportRequest, context: Any
    ) -> AsyncIterator[pb.GetReportResponse]:
        bind_contextvars(collection_id=request.collection_id)
        report = await self._engines.reporting.report(
            request.collection_id, request.format, request.caption_format
        )
        yield pb.GetReportResponse(media_type=report.media_type, file_name=report.file_name)
        async with aclosing(report.chunks()) as chunks:
            async for chunk in chunks:
                yield pb.GetReportResponse(chunk=chunk)
