"""Lists of jobs and of collections, once or as a stream."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from gateway.client import call
from gateway.deps import Dependencies, Deps
from gateway.http.parameters import Naive, Page
from gateway.http.problems import problem_responses
from gateway.presenters.collections import collection_list
from gateway.presenters.jobs import job_list
from gateway.presenters.old_form import in_old_form
from gateway.schemas.collections import CollectionList
from gateway.schemas.jobs import JobList, JobState
from gateway.sse.lists import ListStream
from gateway.sse.stream import stream_responses
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter()

STREAM_RESPONSES = stream_responses("the client disconnects", resumable=False) | problem_responses()


def _job_page(
    page: Page,
    state: Annotated[list[JobState] | None, Query()] = None,
    q: Annotated[
        str, Query(max_length=200, description="Text in the title, URL, file name or id.")
    ] = "",
) -> dict[str, Any]:
    states = [job_pb2.JobState.Value(f"JOB_STATE_{one.upper()}") for one in state or ()]
    return page | {"states": states, "query": q}


JobPage = Annotated[dict[str, Any], Depends(_job_page)]


@router.get("/jobs", tags=["jobs"], responses=problem_responses())
async def list_jobs(deps: Deps, page: JobPage, naive_timestamps: Naive = False) -> JobList:
    """Lists jobs, newest first."""
    found = await call(deps.orchestrator.pipeline.ListJobs, pb.ListJobsRequest(**page))
    return in_old_form(job_list(found), naive_timestamps=naive_timestamps)


@router.get("/jobs/events", tags=["jobs"], responses=STREAM_RESPONSES, response_class=Response)
async def follow_jobs(deps: Deps, page: JobPage) -> Response:
    """Streams the list as it is, then again whenever it changes, as `jobs` events."""
    watch, request = deps.orchestrator.pipeline.WatchJobs, pb.WatchJobsRequest(**page)
    return await _stream(deps, ListStream("jobs", watch, request, job_list))


@router.get("/collections", tags=["collections"], responses=problem_responses())
async def list_collections(deps: Deps, page: Page) -> CollectionList:
    """Lists collections, newest first."""
    request = collection_pb.ListCollectionsRequest(**page)
    found = await call(deps.orchestrator.collections.ListCollections, request)
    return collection_list(found)


@router.get(
    "/collections/events",
    tags=["collections"],
    responses=STREAM_RESPONSES,
    response_class=Response,
)
async def follow_collections(deps: Deps, page: Page) -> Response:
    """Streams the list as it is, then again whenever it changes, as `collections` events."""
    watch = deps.orchestrator.collections.WatchCollections
    request = collection_pb.WatchCollectionsRequest(**page)
    return await _stream(deps, ListStream("collections", watch, request, collection_list))


async def _stream(deps: Dependencies, stream: ListStream[Any]) -> Response:
    deps.streams.check_capacity()
    await stream.begin()
    return deps.streams.response(stream)
