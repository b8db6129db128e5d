"""The records of collections, in the bucket of jobs under keys of their own."""

from google.protobuf.timestamp import from_current_time

from mesh.reasons import Reason
from orchestrator.records import Held, Records
from ytcaption.v1 import collection_pb2

ROOT = "collection"
REQUESTS = "collection-request"
"""Keys of the bucket begin with these, and a dot."""


def request_pointer(request_key: str) -> str:
    """The key that stands for the collection a request made."""
    return f"{REQUESTS}.{request_key}"


class KeptCollection(Held[collection_pb2.CollectionRecord]):
    """A collection's record and the revision it was read or written at."""

    @property
    def id(self) -> str:
        """The collection's."""
        return self.record.collection.collection_id

    @property
    def collection(self) -> collection_pb2.Collection:
        """The collection as callers see it."""
        return self.record.collection

    def touch(self) -> None:
        """See Held."""
        self.collection.update_time.CopyFrom(from_current_time())


class CollectionRecords(Records[KeptCollection]):
    """Reads and writes them."""

    root = f"{ROOT}."
    what = "collection"
    missing = Reason.COLLECTION_NOT_FOUND

    def _read(self, data: bytes, revision: int) -> KeptCollection:
        return KeptCollection(collection_pb2.CollectionRecord.FromString(data), revision)

    async def create(self, record: collection_pb2.CollectionRecord) -> KeptCollection:
        """Stores a new collection durably."""
        return await self._create(KeptCollection(record, 0))
