"""How a collection goes on, as server-sent events: resumable, bounded, patient."""

from collections.abc import AsyncGenerator
from math import inf

from structlog import get_logger

from gateway import collection_telling as telling
from gateway.backend import Orchestrator
from gateway.mailbox import ClosedError, Mailbox
from gateway.stories import HEARTBEAT_SECONDS
from gateway.story_events import BEGINNING, HEARTBEAT, sent
from mesh.errors import MeshError
from mesh.watching import follow_collection
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb

log = get_logger(__name__)


class CollectionStory:
    """One client's way through what happens to a collection."""

    def __init__(self, orchestrator: Orchestrator, collection_id: str, after: int) -> None:
        self._collection = collection_pb2.Collection(collection_id=collection_id)
        self._place = after
        # Where the orchestrator goes away, the client only sees that nothing happens.
        updates = follow_collection(
            orchestrator.collections, collection_id, after, patience_seconds=inf
        )
        self._mail = Mailbox(updates, _live)
        self._held: list[pb.WatchCollectionResponse] = []
        self._stopped = False

    async def has_more(self) -> bool:
        """Whether there is anything after where the client is, of a collection that is settled."""
        self._mail.open()
        try:
            while not any(update.sequence for update in self._held):
                self._held += await self._mail.next(HEARTBEAT_SECONDS)
        except ClosedError:
            return False
        return True

    def stop(self) -> None:
        """Breaks it off; the client will come back to somebody else."""
        self._stopped = True
        self._mail.close()

    async def told(self) -> AsyncGenerator[bytes, None]:
        """Everything as it goes to the client; ends when it is settled, or stopped."""
        yield BEGINNING
        self._mail.open()
        try:
            waiting = self._held
            while True:
                # What came together goes out together.
                if waiting:
                    yield b"".join(map(self._tell, waiting))
                waiting = await self._mail.next(HEARTBEAT_SECONDS)
                if not waiting:
                    yield HEARTBEAT
        except ClosedError:
            if not self._stopped:
                last = telling.collection(self._collection)
                yield sent("finished", last, sequence=self._place)
        except MeshError as error:
            # The client comes back and hears why.
            log.info(
                "a story broke off",
                collection_id=self._collection.collection_id,
                error=str(error),
            )
        finally:
            self._mail.close()

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


def _live(update: pb.WatchCollectionResponse) -> int | None:
    """The member whose figures these are."""
    return update.progress.number if update.WhichOneof("update") == "progress" else None


def _figures(found: collection_pb2.MemberProgress) -> dict[str, object]:
    return {
        "number": found.number,
        "job_id": found.job_id or None,
        "progress": telling.share(found),
    }
