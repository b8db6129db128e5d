"""All collections in memory, newest first, kept by the reading that keeps the index of jobs."""

from bisect import bisect_left, insort
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from structlog import get_logger

from orchestrator.collections.records import ROOT
from orchestrator.index import JobIndex
from orchestrator.paging import page_size
from ytcaption.v1 import collection_pb2

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CollectionPage:
    """Some collections, and where the next ones begin."""

    collections: list[collection_pb2.Collection]
    next_token: str


@dataclass(frozen=True, slots=True)
class WantedCollections:
    """Which collections, and how many of them."""

    size: int
    token: str = ""

    @classmethod
    def checked(cls, size: int, token: str) -> "WantedCollections":
        """What a caller asks for; InvalidRequestError if it makes no sense."""
        return cls(page_size(size), token)


class CollectionShelf:
    """Records as they are stored."""

    def __init__(self, index: JobIndex) -> None:
        self._index = index
        self._records: dict[str, bytes] = {}
        self._ids: list[str] = []
        self._open: set[str] = set()
        index.also_read(ROOT, self._take)

    def _take(self, collection_id: str, data: bytes) -> None:
        try:
            record = collection_pb2.CollectionRecord.FromString(data)
        except DecodeError:  # one record nobody can read must not hide the others
            log.warning("a record that is none is left out", collection_id=collection_id)
            data = b""
        self._open.discard(collection_id)
        known = collection_id in self._records
        if not data:
            if known:
                del self._records[collection_id]
                del self._ids[bisect_left(self._ids, collection_id)]
            return
        self._records[collection_id] = data
        if not known:
            insort(self._ids, collection_id)
        if not record.collection.settled:
            self._open.add(collection_id)

    def record(self, collection_id: str) -> collection_pb2.CollectionRecord | None:
        """A record as it was last read; None if there was none."""
        data = self._records.get(collection_id)
        return collection_pb2.CollectionRecord.FromString(data) if data else None

    async def unsettled(self) -> set[str]:
        """Collections that somebody must keep going."""
        await self._index.catch_up()
        return set(self._open)

    async def ids(self) -> list[str]:
        """All of them, oldest first."""
        await self._index.catch_up()
        return list(self._ids)

    async def page(self, size: int, token: str) -> CollectionPage:
        """Collections older than the token's, newest first."""
        wanted = WantedCollections.checked(size, token)
        await self._index.catch_up()
        return self.look(wanted)

    def look(self, wanted: WantedCollections) -> CollectionPage:
        """The page as it was last read."""
        size, token = wanted.size, wanted.token
        end = bisect_left(self._ids, token) if token else len(self._ids)
        chosen = self._ids[max(0, end - size) : end][::-1]
        records = [collection_pb2.CollectionRecord.FromString(self._records[one]) for one in chosen]
        return CollectionPage(
            collections=[record.collection for record in records],
            next_token=chosen[-1] if end > size else "",
        )
