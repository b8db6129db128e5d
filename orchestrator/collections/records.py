"""The records of collections, in the bucket of jobs under keys of their own."""

from google.protobuf.timestamp import from_current_time

from mesh.reasons import Reason
from orchestrator.jobs.store import RecordStore, Versioned
from ytcaption.v1 import collection_pb2

ROOT = "collection"
REQUESTS = "collection-request"
"""Keys of the bucket begin with these, and a dot."""


class VersionedCollection(Versioned[collection_pb2.CollectionRecord]):
    """A collection's record and the revision it was read or written at."""

    @property
    def id(self) -> str:
        """The collection's id."""
        return self.record.collection.collection_id

    @property
    def collection(self) -> collection_pb2.Collection:
        """The collection as callers see it."""
        return self.record.collection

    def touch(self) -> None:
        """Sets the update time to now."""
        self.collection.update_time.CopyFrom(from_current_time())


class CollectionStore(RecordStore[VersionedCollection]):
    """Reads and writes collection records."""

    root = f"{ROOT}."
    requests = f"{REQUESTS}."
    what = "collection"
    missing = Reason.COLLECTION_NOT_FOUND

    def _read(self, data: bytes, revision: int) -> VersionedCollection:
        return VersionedCollection(collection_pb2.CollectionRecord.FromString(data), revision)

    async def create(self, record: collection_pb2.CollectionRecord) -> VersionedCollection:
        """Stores a new collection durably; ConflictError if its id is taken."""
        return await self._create(VersionedCollection(record, 0))
