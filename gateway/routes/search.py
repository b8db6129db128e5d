"""Searches in captions."""

from typing import Annotated

from fastapi import APIRouter, Query

from gateway.client import call
from gateway.deps import Deps
from gateway.http.parameters import PageToken
from gateway.http.problems import problem_responses
from gateway.presenters.search import results
from gateway.schemas.search import SearchResults
from ytcaption.v1 import search_service_pb2 as pb

router = APIRouter(tags=["search"])

Words = Annotated[
    str,
    Query(
        min_length=1,
        max_length=500,
        description='Words, all of which must be in a passage; "a phrase"; a beginning, such as '
        "capt*; -word excludes. Case and accents do not matter.",
    ),
]
Id = Annotated[str, Query(max_length=64)]


@router.get("/search", responses=problem_responses())
async def search_captions(  # noqa: PLR0913 # one for each parameter
    deps: Deps,
    q: Words,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    page_token: PageToken = "",
    language: Annotated[
        str, Query(max_length=40, description="Only passages in it; pt includes pt-BR.")
    ] = "",
    collection_id: Id = "",
    job_id: Id = "",
) -> SearchResults:
    """Finds words in the captions of all jobs that ended, best passages first."""
    request = pb.SearchRequest(
        query=q,
        page_size=limit,
        page_token=page_token,
        language=language,
        collection_id=collection_id,
        job_id=job_id,
    )
    return results(await call(deps.orchestrator.search.Search, request))
