"""Lists as callers get them, once or as they change."""

from collections.abc import AsyncGenerator, Callable
from functools import lru_cache
from math import inf
from typing import TypeVar

from google.protobuf.message import Message

from gateway import collection_telling, telling
from gateway.backend import Orchestrator
from gateway.collection_shapes import CollectionList
from gateway.shapes import JobList
from gateway.stories import Stream
from gateway.story_events import sent
from mesh.watching import follow_pages
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

KEPT_PAGES = 32
PageT = TypeVar("PageT", bound=Message)


def job_list(page: pb.ListJobsResponse | pb.WatchJobsResponse) -> JobList:
    """One page of jobs."""
    return JobList(
        total=page.total_size,
        next_page_token=page.next_page_token,
        jobs=[telling.summary(job) for job in page.jobs],
    )


def collection_list(
    page: collection_pb.ListCollectionsResponse | collection_pb.WatchCollectionsResponse,
) -> CollectionList:
    """One page of collections."""
    return CollectionList(
        collections=[collection_telling.collection(one) for one in page.collections],
        next_page_token=page.next_page_token,
    )


class LiveList(Stream[PageT]):
    """What one client sees of a list: the page as it is, then whenever it has changed."""

    def __init__(
        self, name: str, pages: AsyncGenerator[PageT, None], told: Callable[[bytes], bytes]
    ) -> None:
        # Of pages that wait for a client only the newest matters.
        super().__init__(name, pages, lambda _: 0)
        self._told = told

    def _tell(self, update: PageT) -> bytes:
        return self._told(update.SerializeToString())


def live_jobs(
    orchestrator: Orchestrator, request: pb.WatchJobsRequest
) -> LiveList[pb.WatchJobsResponse]:
    """Jobs as they come, move and go."""
    # Where the orchestrator goes away, the client only sees that nothing happens.
    pages = follow_pages(orchestrator.pipeline.WatchJobs, request, patience_seconds=inf)
    return LiveList("jobs", pages, _jobs_event)


def live_collections(
    orchestrator: Orchestrator, request: collection_pb.WatchCollectionsRequest
) -> LiveList[collection_pb.WatchCollectionsResponse]:
    """Collections as they come, move and go."""
    pages = follow_pages(orchestrator.collections.WatchCollections, request, patience_seconds=inf)
    return LiveList("collections", pages, _collections_event)


@lru_cache(maxsize=KEPT_PAGES)
def _jobs_event(page: bytes) -> bytes:
    """A crowd that watches one list shares the work of writing it down."""
    return sent("jobs", job_list(pb.WatchJobsResponse.FromString(page)))


@lru_cache(maxsize=KEPT_PAGES)
def _collections_event(page: bytes) -> bytes:
    found = collection_pb.WatchCollectionsResponse.FromString(page)
    return sent("collections", collection_list(found))
