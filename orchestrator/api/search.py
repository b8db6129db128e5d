"""SearchService: finds words in captions."""

from dataclasses import dataclass
from typing import Any

from google.protobuf.duration import from_milliseconds
from google.protobuf.timestamp_pb2 import Timestamp

from orchestrator.search.index import Hit
from orchestrator.search.searching import CaptionSearch
from ytcaption.v1 import search_service_pb2 as pb
from ytcaption.v1 import search_service_pb2_grpc as rpc


@dataclass(frozen=True, slots=True)
class SearchServicer(rpc.SearchServiceServicer):
    """Translates between messages and the search; decides nothing."""

    search: CaptionSearch

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        found = await self.search.find(
            request.query,
            size=request.page_size,
            token=request.page_token,
            language=request.language,
            collection_id=request.collection_id,
            job_id=request.job_id,
        )
        return pb.SearchResponse(
            hits=[_hit(one) for one in found.hits.hits],
            next_page_token=str(found.hits.next or ""),
            indexed=found.indexed,
            behind=found.behind,
        )


def _hit(hit: Hit) -> pb.SearchHit:
    end_time = Timestamp()
    end_time.FromNanoseconds(hit.mark)
    return pb.SearchHit(
        job_id=hit.job_id,
        title=hit.title,
        source=hit.source,
        start_offset=from_milliseconds(hit.start),
        end_offset=from_milliseconds(hit.end),
        match_offset=from_milliseconds(hit.moment),
        snippet=hit.snippet.text,
        matches=[pb.SnippetRange(start=start, end=end) for start, end in hit.snippet.matches],
        language=hit.language,
        collection_id=hit.collection_id,
        end_time=end_time,
        translated=hit.translated,
    )
