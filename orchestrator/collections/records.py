"""The records of collections, in the bucket of jobs under keys of their own."""

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

    entity = collection


class CollectionStore(RecordStore[collection_pb2.CollectionRecord, VersionedCollection]):
    """Reads and writes collection records."""

    root = f"{ROOT}."
    requests = f"{REQUESTS}."
    what = "collection"
    missing = Reason.COLLECTION_NOT_FOUND
    record = collection_pb2.CollectionRecord
    versioned = VersionedCollection
