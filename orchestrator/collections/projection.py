"""What became of each member: the fold over a collection's story.

The last word on a number wins, so nothing can be counted twice.
"""

from collections import Counter
from typing import TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from mesh.bus import Bus
from mesh.period import wanted_days
from orchestrator.collections.records import CollectionRecords
from orchestrator.story import StoryReader
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2

CollectionStateId: TypeAlias = "collection_pb2.CollectionState.ValueType"
MemberStateId: TypeAlias = "collection_pb2.MemberState.ValueType"

PENDING = collection_pb2.MEMBER_STATE_PENDING
RUNNING = collection_pb2.MEMBER_STATE_RUNNING
COMPLETED = collection_pb2.MEMBER_STATE_COMPLETED
FAILED = collection_pb2.MEMBER_STATE_FAILED
TIMED_OUT = collection_pb2.MEMBER_STATE_TIMED_OUT
CANCELLED = collection_pb2.MEMBER_STATE_CANCELLED
ENDED = frozenset({COMPLETED, FAILED, TIMED_OUT, CANCELLED})


def awaits_its_job(member: collection_pb2.Member) -> bool:
    """Whether a job was begun for it that may still change it."""
    goes_on = member.state in (PENDING, RUNNING)
    return bool(member.job_id) and (
        goes_on or (member.state == TIMED_OUT and not member.HasField("end_time"))
    )


class Ledger:
    """A collection and its members as its story tells them."""

    def __init__(self) -> None:
        self.members: list[collection_pb2.Member] = []
        self.sequence = 0
        self.request = event_pb2.StartCollection()
        self.settled = False
        """Whether the story has its end."""
        self.reopened = False
        """Whether it had one before: a dead member was replayed."""
        self._collection = collection_pb2.Collection()
        self._counts: Counter[MemberStateId] = Counter()
        self._late = 0
        self._forgotten = False

    @property
    def collection(self) -> collection_pb2.Collection:
        """The collection with its counts as they are now."""
        found = self._collection
        if self._forgotten:
            return found
        del found.counts[:]
        for state in sorted(self._counts):
            if self._counts[state]:
                found.counts.add(state=state, count=self._counts[state])
        found.member_count = len(self.members)
        found.late_count = self._late
        return found

    def count(self, state: MemberStateId) -> int:
        """Members in a state."""
        return self._counts[state]

    @property
    def outcome(self) -> CollectionStateId:
        """What is said of the collection once it is gathered."""
        collection = self._collection
        if collection.state == collection_pb2.COLLECTION_STATE_CANCELLED:
            return collection_pb2.COLLECTION_STATE_CANCELLED
        whole = collection.discovery_complete and not any(
            listing.HasField("failure") for listing in collection.listings
        )
        if whole and self.count(COMPLETED) == len(self.members):
            return collection_pb2.COLLECTION_STATE_COMPLETE
        return collection_pb2.COLLECTION_STATE_PARTIAL

    def apply(self, sequence: int, event: event_pb2.Event) -> None:
        """Takes one event in."""
        if not self.sequence and event.type != event_pb2.EVENT_TYPE_START_COLLECTION:
            return  # the beginning was too old to be kept: numbers would count for nothing
        self.sequence = sequence
        match event.WhichOneof("payload"):
            case "start_collection":
                self.request = event.start_collection
                self._collection = collection_of(event)
            case "member_changed":
                self.reopened = self.reopened or self.settled
                self._put(event.member_changed.member)
            case "collection_changed":
                self._collection = event.collection_changed.collection
                self.reopened = self.reopened or self.settled
                self.settled = event.type == event_pb2.EVENT_TYPE_COLLECTION_SETTLED
        self._collection.update_time.CopyFrom(event.timestamp)

    def restore(self, collection: collection_pb2.Collection) -> None:
        """All that is left once the story is too old to be kept: the counts, no members."""
        self._collection = collection
        self.settled = collection.settled
        self._forgotten = True

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


def collection_of(event: event_pb2.Event) -> collection_pb2.Collection:
    """The collection as it began."""
    asked = event.start_collection
    days = wanted_days(asked.from_date, asked.to_date, asked.period)
    collection = collection_pb2.Collection(
        collection_id=event.collection_id,
        correlation_id=event.correlation_id,
        sources=asked.sources,
        options=asked.options,
        state=collection_pb2.COLLECTION_STATE_RUNNING,
        create_time=event.timestamp,
        update_time=event.timestamp,
        max_in_flight=asked.max_in_flight,
        title=asked.title,
        listings=[collection_pb2.Listing(source=source) for source in asked.sources],
        caller=asked.caller,
        priority=asked.priority or job_pb2.PRIORITY_NORMAL,
        webhook_url=asked.webhook_url,
        from_date=days.first,
        to_date=days.last,
    )
    if asked.HasField("timeout"):
        nanos = event.timestamp.ToNanoseconds() + asked.timeout.ToNanoseconds()
        deadline = Timestamp()
        deadline.FromNanoseconds(nanos)
        collection.deadline.CopyFrom(deadline)
    return collection


async def read_ledger(bus: Bus, collection_id: str, *, patience_seconds: float = 0) -> Ledger:
    """Folds the story; nothing in it if there is none."""
    ledger = Ledger()
    events = StoryReader(bus).events(collection_id, patience_seconds=patience_seconds)
    async for sequence, event in events:
        ledger.apply(sequence, event)
    return ledger


class Ledgers:
    """Reads ledgers for whoever asks for members."""

    def __init__(self, bus: Bus, records: CollectionRecords) -> None:
        self._bus = bus
        self._records = records

    async def read(self, collection_id: str) -> Ledger:
        """The ledger as it stands; NotFoundError if there is no such collection."""
        kept = await self._records.get(collection_id)
        ledger = await read_ledger(self._bus, kept.id)
        if not ledger.sequence:  # the record outlives the story, or its beginning
            ledger.restore(kept.collection)
        return ledger
