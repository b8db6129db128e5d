"""How a collection goes on, as server-sent events."""

from math import inf

from gateway import collection_telling as telling
from gateway.backend import Orchestrator
from gateway.stories import Story
from gateway.story_events import sent
from mesh.watching import follow_collection
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb


class CollectionStory(Story[pb.WatchCollectionResponse]):
    """One client's way through what happens to a collection."""

    def __init__(self, orchestrator: Orchestrator, collection_id: str, after: int) -> None:
        # Where the orchestrator goes away, the client only sees that nothing happens.
        updates = follow_collection(
            orchestrator.collections, collection_id, after, patience_seconds=inf
        )
        super().__init__(collection_id, updates, _live)
        self._collection = collection_pb2.Collection(collection_id=collection_id)
        self._place = after

    def _is_news(self, update: pb.WatchCollectionResponse) -> bool:
        return bool(update.sequence)

    def _tell(self, update: pb.WatchCollectionResponse) -> bytes:
        self._place = max(self._place, update.sequence)
        match update.WhichOneof("update"):
            case "collection":
                self._collection = update.collection
                told = telling.collection(update.collection)
                return sent("collection", told, sequence=update.sequence)
            case "member":
                return sent("member", telling.member(update.member), sequence=update.sequence)
            case "progress":
                return sent("progress", _figures(update.progress))
            case _:
                return b""

    async def _ending(self) -> bytes:
        return sent("finished", telling.collection(self._collection), sequence=self._place)


def _live(update: pb.WatchCollectionResponse) -> int | None:
    """The member whose figures these are."""
    return update.progress.number if update.WhichOneof("update") == "progress" else None


def _figures(found: collection_pb2.MemberProgress) -> dict[str, object]:
    return {
        "number": found.number,
        "job_id": found.job_id or None,
        "progress": telling.share(found),
    }
