"""Lists and reads collections: the in-memory index, newest first, and pages of members.

The job index feeds this one: both are read from the same bucket.
"""

from copy import deepcopy
from dataclasses import dataclass

from mesh.bus import Bus
from mesh.errors import InvalidRequestError
from orchestrator.collections.members import RUNNING
from orchestrator.collections.projection import Projections
from orchestrator.collections.records import ROOT, CollectionStore, VersionedCollection
from orchestrator.jobs.index import JobIndex, ListQuery, RecordTable
from orchestrator.queue.paging import MAX_PAGE, MAX_PAGE_BYTES, Page, fitting, sequence_of
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb


class CollectionTable(RecordTable[bool]):
    """Collections by whether they are settled."""

    def _read(self, id_: str, data: bytes, revision: int) -> bool:
        collection = collection_pb2.CollectionRecord.FromString(data).collection
        self._usage.put_collection(id_, collection, revision)
        self._owners[id_] = (collection.owner, collection.group)
        return collection.settled

    def page(self, wanted: ListQuery) -> Page[collection_pb2.Collection]:
        """Collections older than the token's, newest first."""
        records, next_token = self._page(self._chosen((), wanted.scope), wanted.size, wanted.token)
        found = map(collection_pb2.CollectionRecord.FromString, records)
        return Page([record.collection for record in found], next_token)


class CollectionIndex:
    """Collections as last read from the bucket."""

    def __init__(self, index: JobIndex) -> None:
        self._index = index
        self._table = CollectionTable(index.usage)
        self.look = self._table.page
        """The page as last read."""
        index.also_read(ROOT, self._table.apply)

    def record(self, collection_id: str) -> collection_pb2.CollectionRecord | None:
        """A record as last read; None if there was none."""
        data = self._table.stored(collection_id)
        return collection_pb2.CollectionRecord.FromString(data) if data else None

    async def unsettled(self) -> set[str]:
        """The ids of collections that a worker must still run."""
        await self._index.catch_up()
        return self._table.ids([False])

    async def ids(self) -> list[str]:
        """The ids of all collections, oldest first."""
        await self._index.catch_up()
        return sorted(self._table.ids())

    async def owned(self, owner: str) -> list[str]:
        """The ids of an owner's collections, oldest first."""
        await self._index.catch_up()
        return self._table.owned(owner)

    async def page(self, size: int, token: str) -> Page[collection_pb2.Collection]:
        """Collections older than the token's, newest first."""
        wanted = ListQuery.checked(size, token)
        await self._index.catch_up()
        return self.look(wanted)


@dataclass(frozen=True, slots=True)
class CollectionReader:
    """Reads the record if that is enough, else the whole projection."""

    bus: Bus
    records: CollectionStore
    projections: Projections
    index: JobIndex

    async def page(self, collection_id: str, size: int, token: str) -> pb.GetCollectionResponse:
        """Members in the order in which they were found; a token is the last number shown."""
        if size < 0:
            raise InvalidRequestError("page_size must not be negative")
        begin = sequence_of(token) or 0
        await self.records.check_visible(collection_id)
        if not size:
            versioned = await self.records.get(collection_id)
            if not await self._is_behind(versioned):
                return pb.GetCollectionResponse(collection=versioned.collection)
        projection = await self.projections.read(collection_id)
        members = [
            self._with_progress(member)
            for member in projection.members[begin : begin + min(size, MAX_PAGE)]
        ]
        budget = MAX_PAGE_BYTES - projection.collection.ByteSize()
        members = members[: fitting((one.ByteSize() for one in members), budget)]
        end = begin + len(members)
        more = bool(members) and end < len(projection.members)
        return pb.GetCollectionResponse(
            collection=projection.collection,
            members=members,
            next_page_token=str(end) if more else "",
        )

    async def _is_behind(self, versioned: VersionedCollection) -> bool:
        """Whether the event log, which watchers see, is ahead of the record."""
        if versioned.collection.settled:
            return False
        names = self.bus.names
        for kind in ("collection_changed", "collection_gathered", "collection_settled"):
            last = await self.bus.newest(names.events_stream, names.event(versioned.id, kind))
            if last is not None and last.sequence > versioned.record.sequence:
                return True
        return False

    def _with_progress(self, member: collection_pb2.Member) -> collection_pb2.Member:
        progress = self.index.progress(member.job_id) if member.state == RUNNING else None
        if progress is None:
            return member
        shown = deepcopy(member)
        shown.progress = progress
        return shown
