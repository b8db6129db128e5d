"""The event stream of a collection."""

from math import inf

from gateway.client import Orchestrator
from gateway.presenters import collections as present
from gateway.sse.buffer import UpdateBuffer
from gateway.sse.stream import ResumableStream, encode
from mesh.watching import follow_collection
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb


class CollectionStream(ResumableStream[pb.WatchCollectionResponse]):
    """The collection, its members as they change, their live progress, and the final event."""

    def __init__(self, orchestrator: Orchestrator, collection_id: str, after: int) -> None:
        # Waits through any outage of the orchestrator: the stream stays open, without events.
        updates = follow_collection(
            orchestrator.collections, collection_id, after, patience_seconds=inf
        )
        super().__init__(collection_id, UpdateBuffer(updates, _progress_key))
        self._collection = collection_pb2.Collection(collection_id=collection_id)
        self._position = after

    def _is_new(self, update: pb.WatchCollectionResponse) -> bool:
        return bool(update.sequence)

    def _encode(self, update: pb.WatchCollectionResponse) -> bytes:
        self._position = max(self._position, update.sequence)
        match update.WhichOneof("update"):
            case "collection":
                self._collection = update.collection
                model = present.collection(update.collection)
                return encode("collection", model, sequence=update.sequence)
            case "member":
                return encode("member", present.member(update.member), sequence=update.sequence)
            case "subtask":
                subtask = present.subtask(update.subtask, self._collection.collection_id)
                return encode("subtask", subtask, sequence=update.sequence)
            case "document":
                document = present.document(update.document)
                return encode("document", document, sequence=update.sequence)
            case "progress":
                return encode("progress", present.member_progress(update.progress))
            case _:
                return b""

    async def _final_event(self) -> bytes:
        return encode("finished", present.collection(self._collection), sequence=self._position)


def _progress_key(update: pb.WatchCollectionResponse) -> int | None:
    """Progress is kept per member."""
    return update.progress.number if update.WhichOneof("update") == "progress" else None
