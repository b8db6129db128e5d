"""CollectionService: collections and their reports for clients."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from structlog.contextvars import bind_contextvars

from mesh.correlation import adopt
from orchestrator.collections.control import CollectionControl
from orchestrator.collections.feed import CollectionFeed
from orchestrator.collections.index import CollectionIndex, CollectionReader
from orchestrator.collections.report import Reports
from orchestrator.collections.submission import CollectionSubmission
from orchestrator.collections.subtask_reader import SubtaskReader
from orchestrator.jobs.index import ListQuery
from orchestrator.jobs.validation import check_word
from orchestrator.watch.event_feed import FeedPool
from orchestrator.watch.live_pages import LivePages
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import collection_service_pb2_grpc as rpc


@dataclass(frozen=True, slots=True)
class CollectionServicer(rpc.CollectionServiceServicer):
    """Translates between messages and engines; decides nothing."""

    submission: CollectionSubmission
    reading: CollectionReader
    index: CollectionIndex
    live_pages: LivePages
    feeds: FeedPool[CollectionFeed]
    control: CollectionControl
    reporting: Reports
    subtasks: SubtaskReader

    async def CreateCollection(
        self, request: pb.CreateCollectionRequest, context: Any
    ) -> pb.CreateCollectionResponse:
        if check_word(request.correlation_id, "correlation_id"):
            adopt(request.correlation_id)
        collection = await self.submission.create(request)
        return pb.CreateCollectionResponse(collection=collection)

    async def GetCollection(
        self, request: pb.GetCollectionRequest, context: Any
    ) -> pb.GetCollectionResponse:
        return await self.reading.page(request.collection_id, request.page_size, request.page_token)

    async def ListCollections(
        self, request: pb.ListCollectionsRequest, context: Any
    ) -> pb.ListCollectionsResponse:
        page = await self.index.page(request.page_size, request.page_token)
        return pb.ListCollectionsResponse(collections=page.items, next_page_token=page.next_token)

    async def WatchCollections(
        self, request: pb.WatchCollectionsRequest, context: Any
    ) -> AsyncIterator[pb.WatchCollectionsResponse]:
        wanted = ListQuery.checked(request.page_size, request.page_token)
        watch = self.live_pages.watch(self.index.look, wanted)
        async with aclosing(watch) as pages:
            async for page in pages:
                yield pb.WatchCollectionsResponse(
                    collections=page.items, next_page_token=page.next_token
                )

    async def WatchCollection(
        self, request: pb.WatchCollectionRequest, context: Any
    ) -> AsyncIterator[pb.WatchCollectionResponse]:
        bind_contextvars(collection_id=request.collection_id)
        found = (await self.reading.page(request.collection_id, 0, "")).collection
        async with self.feeds.of(found.collection_id) as feed:
            await feed.read_stored()
            # A collection without an event log has outlived it.
            yield pb.WatchCollectionResponse(collection=found if feed.empty else feed.collection)
            follow = not (found.settled and feed.empty)
            watch = feed.watch(request.after_sequence, follow=follow)
            async with aclosing(watch) as updates:
                async for update in updates:
                    if isinstance(update, collection_pb2.MemberProgress):
                        yield pb.WatchCollectionResponse(progress=update)
                    else:
                        yield update

    async def CancelCollection(
        self, request: pb.CancelCollectionRequest, context: Any
    ) -> pb.CancelCollectionResponse:
        bind_contextvars(collection_id=request.collection_id)
        await self.reading.records.check_visible(request.collection_id)
        collection = await self.control.cancel(request.collection_id, request.note)
        return pb.CancelCollectionResponse(collection=collection)

    async def DeleteCollection(
        self, request: pb.DeleteCollectionRequest, context: Any
    ) -> pb.DeleteCollectionResponse:
        bind_contextvars(collection_id=request.collection_id)
        await self.reading.records.check_visible(request.collection_id)
        removed = await self.control.delete(request.collection_id)
        return pb.DeleteCollectionResponse(jobs_removed=removed)

    async def GetReport(
        self, request: pb.GetReportRequest, context: Any
    ) -> AsyncIterator[pb.GetReportResponse]:
        bind_contextvars(collection_id=request.collection_id)
        await self.reading.records.check_visible(request.collection_id)
        report = await self.reporting.report(
            request.collection_id, request.format, request.caption_format
        )
        yield pb.GetReportResponse(media_type=report.media_type, file_name=report.file_name)
        async with aclosing(report.chunks()) as chunks:
            async for chunk in chunks:
                yield pb.GetReportResponse(chunk=chunk)

    async def ListSubtasks(
        self, request: pb.ListSubtasksRequest, context: Any
    ) -> pb.ListSubtasksResponse:
        bind_contextvars(collection_id=request.collection_id)
        page = await self.subtasks.page(
            request.collection_id, request.page_size, request.page_token
        )
        return pb.ListSubtasksResponse(subtasks=page.items, next_page_token=page.next_token)

    async def ListDocuments(
        self, request: pb.ListDocumentsRequest, context: Any
    ) -> pb.ListDocumentsResponse:
        bind_contextvars(collection_id=request.collection_id)
        page = await self.subtasks.documents_page(
            request.collection_id, request.page_size, request.page_token
        )
        return pb.ListDocumentsResponse(documents=page.items, next_page_token=page.next_token)

    async def GetResultFile(
        self, request: pb.GetResultFileRequest, context: Any
    ) -> AsyncIterator[pb.GetResultFileResponse]:
        bind_contextvars(collection_id=request.collection_id)
        file, chunks = await self.subtasks.file(
            request.collection_id, request.subtask, request.name
        )
        yield pb.GetResultFileResponse(file=file)
        async for chunk in chunks:
            yield pb.GetResultFileResponse(chunk=chunk)
