"""The projection of a collection's event log, and the writer that appends to log and projection.

The last event of a member number wins, so nothing is counted twice.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeAlias

from mesh.bus import Bus, outlast
from mesh.messages import copy_shared
from mesh.period import wanted_days
from orchestrator.collections.members import COMPLETED, MemberStateId
from orchestrator.collections.records import CollectionStore, VersionedCollection
from orchestrator.jobs.event_log import EventLogReader, EventLogWriter, EventTypeId
from orchestrator.jobs.lease import LostError
from orchestrator.jobs.store import ConflictError
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2, task_pb2

CollectionStateId: TypeAlias = "collection_pb2.CollectionState.ValueType"

BATCH_STARTED = event_pb2.EVENT_TYPE_START_COLLECTION
"""START_COLLECTION in the log of a collection; in that of a job it starts a recording's fetch."""
SAVE_SECONDS = 1.0
"""Counts in the record are at most about this old."""


class Projection:
    """A collection and its members, as far as the event log was applied."""

    def __init__(self) -> None:
        self.members: list[collection_pb2.Member] = []
        self.subtasks: list[task_pb2.Subtask] = []
        self.documents: list[task_pb2.Document] = []
        """Without their texts, which are in the event logs of the tasks."""
        self.sequence = 0
        self.request = event_pb2.StartCollection()
        self.settled = False
        """Whether the last event of the log settles the collection."""
        self.reopened = False
        """Whether it was settled before: a dead member was replayed."""
        self._collection = collection_pb2.Collection()
        self._counts: Counter[MemberStateId] = Counter()
        self._late = 0
        self._restored = False

    @property
    def collection(self) -> collection_pb2.Collection:
        """The collection with its current counts."""
        found = self._collection
        if self._restored:
            return found
        del found.counts[:]
        for state in sorted(self._counts):
            if self._counts[state]:
                found.counts.add(state=state, count=self._counts[state])
        found.member_count = len(self.members)
        found.late_count = self._late
        found.subtask_count, found.document_count = len(self.subtasks), len(self.documents)
        return found

    def count(self, state: MemberStateId) -> int:
        """The number of members in a state."""
        return self._counts[state]

    @property
    def outcome(self) -> CollectionStateId:
        """The state of the collection once it is gathered."""
        collection = self._collection
        if collection.state == collection_pb2.COLLECTION_STATE_CANCELLED:
            return collection_pb2.COLLECTION_STATE_CANCELLED
        whole = collection.discovery_complete and not any(
            listing.HasField("failure") for listing in collection.listings
        )
        done = all(one.state == task_pb2.SUBTASK_STATE_COMPLETED for one in self.subtasks)
        if whole and done and self.count(COMPLETED) == len(self.members):
            return collection_pb2.COLLECTION_STATE_COMPLETE
        return collection_pb2.COLLECTION_STATE_PARTIAL

    def apply(self, sequence: int, event: event_pb2.Event) -> None:
        """Applies one event."""
        if not self.sequence and event.type != BATCH_STARTED:
            return  # retention removed the beginning: member numbers would be wrong
        self.sequence = sequence
        match event.WhichOneof("payload"):
            case "start_collection":
                self.request = event.start_collection
                self._collection = collection_of(event)
            case "member_changed":
                self.reopened = self.reopened or self.settled
                self._put(event.member_changed.member)
            case "subtask_changed":
                self.reopened = self.reopened or self.settled
                self._put_subtask(event.subtask_changed.subtask)
            case "document_found":
                self.documents.append(event.document_found.document)
            case "collection_changed":
                self._collection = event.collection_changed.collection
                self.reopened = self.reopened or self.settled
                self.settled = event.type == event_pb2.EVENT_TYPE_COLLECTION_SETTLED
        self._collection.update_time.CopyFrom(event.timestamp)

    def restore(self, collection: collection_pb2.Collection) -> None:
        """Restores the counts from the record, without members, once the event log is gone."""
        self._collection = collection
        self.settled = collection.settled
        self._restored = True

    def _put(self, member: collection_pb2.Member) -> None:
        if member.number > len(self.members):
            self.members.append(member)
        else:
            before = self.members[member.number - 1]
            self._counts[before.state] -= 1
            self._late -= before.late
            self.members[member.number - 1] = member
        self._counts[member.state] += 1
        self._late += member.late

    def _put_subtask(self, subtask: task_pb2.Subtask) -> None:
        if subtask.number > len(self.subtasks):
            self.subtasks.append(subtask)
        else:
            self.subtasks[subtask.number - 1] = subtask


def collection_of(event: event_pb2.Event) -> collection_pb2.Collection:
    """The collection as its first event describes it."""
    start = event.start_collection
    days = wanted_days(start.from_date, start.to_date, start.period)
    collection = collection_pb2.Collection(
        collection_id=event.collection_id,
        correlation_id=event.correlation_id,
        state=collection_pb2.COLLECTION_STATE_RUNNING,
        create_time=event.timestamp,
        update_time=event.timestamp,
        listings=[collection_pb2.Listing(source=source) for source in start.sources],
    )
    copy_shared(start, collection)
    collection.priority = start.priority or job_pb2.PRIORITY_NORMAL
    collection.from_date, collection.to_date = days.first, days.last
    if start.HasField("timeout"):
        collection.deadline.FromNanoseconds(
            event.timestamp.ToNanoseconds() + start.timeout.ToNanoseconds()
        )
    return collection


async def read_projection(
    event_logs: EventLogReader, collection_id: str, *, patience_seconds: float = 0
) -> Projection:
    """Projects the event log; empty if there is none."""
    projection = Projection()
    events = event_logs.events(collection_id, patience_seconds=patience_seconds)
    async for sequence, event in events:
        projection.apply(sequence, event)
    return projection


async def projection_at(
    event_logs: EventLogReader, collection_id: str, sequence: int
) -> Projection:
    """Projects the event log up to one event of it; empty if the log is gone."""
    projection = Projection()
    async for stored_at, event in event_logs.events(collection_id):
        if stored_at <= sequence:
            projection.apply(stored_at, event)
    return projection


ReadProjection: TypeAlias = Callable[[str], Awaitable[Projection]]
"""Reads the current projection of a collection, or raises NotFoundError."""


class Projections:
    """Reads projections of stored collections."""

    def __init__(self, event_logs: EventLogReader, records: CollectionStore) -> None:
        self._event_logs = event_logs
        self._records = records

    async def read(self, collection_id: str) -> Projection:
        """The current projection; NotFoundError if there is no such collection."""
        versioned = await self._records.get(collection_id)
        projection = await read_projection(self._event_logs, versioned.id)
        if not projection.sequence:  # the record outlives the event log, or its beginning
            projection.restore(versioned.collection)
        return projection


class CollectionEventWriter:
    """The broker refuses its writes as soon as another controller has appended anything."""

    def __init__(
        self,
        bus: Bus,
        records: CollectionStore,
        versioned: VersionedCollection,
        projection: Projection,
    ) -> None:
        self.projection = projection
        self._records = records
        self._versioned = versioned
        self.event_log = EventLogWriter(bus, versioned.collection, projection.sequence)
        self._saved_at = float("-inf")

    @property
    def collection(self) -> collection_pb2.Collection:
        """The collection as projected."""
        return self.projection.collection

    async def append_member(self, member: collection_pb2.Member) -> None:
        """Appends a new or changed member."""
        changed = event_pb2.MemberChanged(member=member)
        await self._append(
            event_pb2.Event(type=event_pb2.EVENT_TYPE_MEMBER_CHANGED, member_changed=changed)
        )

    async def append_subtask(self, subtask: task_pb2.Subtask) -> None:
        """Appends a new or changed subtask."""
        changed = event_pb2.SubtaskChanged(subtask=subtask)
        await self._append(
            event_pb2.Event(type=event_pb2.EVENT_TYPE_SUBTASK_CHANGED, subtask_changed=changed)
        )

    async def append_document(self, document: task_pb2.Document) -> None:
        """Appends a document, without its text."""
        found = event_pb2.DocumentFound(document=document)
        await self._append(
            event_pb2.Event(type=event_pb2.EVENT_TYPE_DOCUMENT_FOUND, document_found=found)
        )

    async def append_collection(
        self, type_: EventTypeId, collection: collection_pb2.Collection
    ) -> None:
        """Appends a change of the collection itself, and saves the record at once."""
        changed = event_pb2.CollectionChanged(collection=collection)
        await self._append(event_pb2.Event(type=type_, collection_changed=changed))
        await self.save()

    async def _append(self, event: event_pb2.Event) -> None:
        await self.event_log.append_event(event)
        self.projection.apply(self.event_log.last_sequence, event)

    async def save_sometimes(self) -> None:
        """Saves the counts, once a second at most."""
        behind = self._versioned.record.sequence < self.projection.sequence
        if behind and monotonic() - self._saved_at >= SAVE_SECONDS:
            await self.save()

    async def save(self) -> None:
        """Saves the collection as projected; LostError if another controller has got further."""
        self._saved_at = monotonic()
        while True:
            self._copy_projection()
            try:
                return await outlast(lambda: self._records.save(self._versioned))
            except ConflictError:
                await self._reconcile()

    def _copy_projection(self) -> None:
        """Copies the projection into the record; a cancel note is in the record alone at first."""
        note = self._versioned.collection.cancel_note
        self._versioned.collection.CopyFrom(self.projection.collection)
        self._versioned.collection.cancel_note = self._versioned.collection.cancel_note or note
        self._versioned.record.sequence = self.projection.sequence

    async def _reconcile(self) -> None:
        """Takes over a cancel request; LostError if another controller has the collection."""
        newest = await outlast(lambda: self._records.get(self._versioned.id))
        if newest.record.sequence > self.projection.sequence:
            raise LostError(newest.id)
        self._versioned = newest
