"""One conductor's hold on one collection: what it tells is stored, folded and, soon, recorded."""

from time import monotonic

from mesh.bus import Bus, outlast
from orchestrator.collections.ledger import Ledger
from orchestrator.collections.records import CollectionRecords, KeptCollection
from orchestrator.jobs import ConflictError
from orchestrator.lease import LostError
from orchestrator.story import EventTypeId, StoryWriter
from ytcaption.v1 import collection_pb2, event_pb2

SAVE_SECONDS = 1.0
"""Counts in the record are at most about this old."""


class Journal:
    """Refused by the broker as soon as another conductor has told anything."""

    def __init__(
        self, bus: Bus, records: CollectionRecords, kept: KeptCollection, ledger: Ledger
    ) -> None:
        self.ledger = ledger
        self._records = records
        self._kept = kept
        self.story = StoryWriter(bus, kept.collection, ledger.sequence)
        self._saved = float("-inf")

    @property
    def collection(self) -> collection_pb2.Collection:
        """As it stands."""
        return self.ledger.collection

    @property
    def kept(self) -> KeptCollection:
        """The record as it was last read or written."""
        return self._kept

    async def tell_member(self, member: collection_pb2.Member) -> None:
        """A member was found, or stands elsewhere."""
        changed = event_pb2.MemberChanged(member=member)
        await self._tell(
            event_pb2.Event(type=event_pb2.EVENT_TYPE_MEMBER_CHANGED, member_changed=changed)
        )

    async def tell(self, type_: EventTypeId, collection: collection_pb2.Collection) -> None:
        """The collection itself stands elsewhere; recorded at once."""
        changed = event_pb2.CollectionChanged(collection=collection)
        await self._tell(event_pb2.Event(type=type_, collection_changed=changed))
        await self.save()

    async def _tell(self, event: event_pb2.Event) -> None:
        await self.story.append(event)
        self.ledger.apply(self.story.last_sequence, event)

    async def save_sometimes(self) -> None:
        """Records the counts, once a second at most."""
        behind = self._kept.record.sequence < self.ledger.sequence
        if behind and monotonic() - self._saved >= SAVE_SECONDS:
            await self.save()

    async def save(self) -> None:
        """Records the collection as it stands; LostError if somebody knows more of it."""
        self._saved = monotonic()
        while True:
            self._fold_in()
            try:
                return await outlast(lambda: self._records.save(self._kept))
            except ConflictError:
                await self._reconcile()

    def _fold_in(self) -> None:
        """What the story tells; a note of who wants it to stop is in the record alone at first."""
        note = self._kept.collection.cancel_note
        self._kept.collection.CopyFrom(self.ledger.collection)
        self._kept.collection.cancel_note = self._kept.collection.cancel_note or note
        self._kept.record.sequence = self.ledger.sequence

    async def _reconcile(self) -> None:
        """Somebody asked for it to stop, or has it now."""
        newest = await outlast(lambda: self._records.get(self._kept.id))
        if newest.record.sequence > self.ledger.sequence:
            raise LostError(newest.id)
        self._kept = newest
