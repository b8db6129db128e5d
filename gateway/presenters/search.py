"""Presents what a search found."""

from urllib.parse import urlencode

from gateway.presenters.jobs import seconds, timestamp
from gateway.schemas import search as schemas
from ytcaption.v1 import search_service_pb2 as pb


def results(found: pb.SearchResponse) -> schemas.SearchResults:
    """Presents one page of passages."""
    return schemas.SearchResults(
        hits=[hit(one) for one in found.hits],
        next_page_token=found.next_page_token,
        indexed=found.indexed,
        behind=found.behind,
    )


def hit(found: pb.SearchHit) -> schemas.SearchHit:
    """Presents one passage."""
    moment = seconds(found.match_offset)
    return schemas.SearchHit.of(
        found,
        start=seconds(found.start_offset),
        end=seconds(found.end_offset),
        at=moment,
        matches=[schemas.Match(start=one.start, end=one.end) for one in found.matches],
        completed_at=timestamp(found.end_time),
        url=page_url(found.job_id, moment, translated=found.translated),
    )


def page_url(job_id: str, moment: float, *, translated: bool) -> str:
    """Where the page shows a job at a moment."""
    query = {"t": f"{moment:g}"} | ({"text": "translated"} if translated else {})
    return f"/#/job/{job_id}?{urlencode(query)}"
