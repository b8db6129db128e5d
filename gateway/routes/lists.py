"""Lists of jobs and of collections, once or as they change."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from gateway.collection_shapes import CollectionList
from gateway.face import Face, FaceOf
from gateway.lists import LiveList, collection_list, job_list, live_collections, live_jobs
from gateway.paging import Limit, PageToken
from gateway.problems import described
from gateway.shapes import JobList, StateWord
from gateway.streams import check_room, described_stream, streamed
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter()

FOLLOWED = described_stream("the client leaves") | described()


def _jobs_wanted(
    limit: Limit = 50,
    page_token: PageToken = "",
    state: Annotated[list[StateWord] | None, Query()] = None,
    q: Annotated[str, Query(max_length=200, description="In title, address, name or id.")] = "",
) -> dict[str, Any]:
    states = [job_pb2.JobState.Value(f"JOB_STATE_{one.upper()}") for one in state or ()]
    return {"page_size": limit, "page_token": page_token, "states": states, "query": q}


def _collections_wanted(limit: Limit = 50, page_token: PageToken = "") -> dict[str, Any]:
    return {"page_size": limit, "page_token": page_token}


JobsWanted = Annotated[dict[str, Any], Depends(_jobs_wanted)]
CollectionsWanted = Annotated[dict[str, Any], Depends(_collections_wanted)]


@router.get("/jobs", tags=["jobs"], responses=described())
async def list_jobs(face: FaceOf, wanted: JobsWanted) -> JobList:
    """Lists jobs, newest first."""
    request = pb.ListJobsRequest(**wanted)
    found = await face.orchestrator.ask(face.orchestrator.pipeline.ListJobs, request)
    return job_list(found)


@router.get("/jobs/events", tags=["jobs"], responses=FOLLOWED, response_class=Response)
async def follow_jobs(face: FaceOf, wanted: JobsWanted) -> Response:
    """The list as it is, then again whenever it has changed, as events `jobs`."""
    return await _followed(face, live_jobs(face.orchestrator, pb.WatchJobsRequest(**wanted)))


@router.get("/collections", tags=["collections"], responses=described())
async def list_collections(face: FaceOf, wanted: CollectionsWanted) -> CollectionList:
    """Lists collections, newest first."""
    request = collection_pb.ListCollectionsRequest(**wanted)
    found = await face.orchestrator.ask(face.orchestrator.collections.ListCollections, request)
    return collection_list(found)


@router.get(
    "/collections/events", tags=["collections"], responses=FOLLOWED, response_class=Response
)
async def follow_collections(face: FaceOf, wanted: CollectionsWanted) -> Response:
    """The list as it is, then again whenever it has changed, as events `collections`."""
    request = collection_pb.WatchCollectionsRequest(**wanted)
    return await _followed(face, live_collections(face.orchestrator, request))


async def _followed(face: Face, live: LiveList[Any]) -> Response:
    check_room(face.stories, face.settings.max_streams)
    await live.begin()
    return streamed(face.stories, live)
