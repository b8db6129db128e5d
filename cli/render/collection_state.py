"""A collection and its members as last heard of."""

from collections import Counter
from collections.abc import Mapping

from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb

ENDED = frozenset(
    {
        pb.MEMBER_STATE_COMPLETED,
        pb.MEMBER_STATE_FAILED,
        pb.MEMBER_STATE_TIMED_OUT,
        pb.MEMBER_STATE_CANCELLED,
    }
)
ORDER = ("completed", "running", "pending", "failed", "timed out", "cancelled")
"""How counts are told."""


def member_state(state: "pb.MemberState.ValueType") -> str:
    """The state in a word or two."""
    return pb.MemberState.Name(state).removeprefix("MEMBER_STATE_").lower().replace("_", " ")


def collection_state(collection: pb.Collection) -> str:
    """The state in one word."""
    name = pb.CollectionState.Name(collection.state)
    return name.removeprefix("COLLECTION_STATE_").lower()


def counts_of(collection: pb.Collection) -> dict[str, int]:
    """Members by state as the server counts them."""
    return in_order({member_state(one.state): one.count for one in collection.counts})


def in_order(counts: Mapping[str, int]) -> dict[str, int]:
    """States nobody is in are left out; those of a newer server come last."""
    known = [*ORDER, *(name for name in counts if name not in ORDER)]
    return {name: counts[name] for name in known if counts.get(name)}


def in_words(counts: Mapping[str, int]) -> str:
    """27 completed, 3 failed."""
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no members"


class Roster:
    """Folds the updates of a watch."""

    def __init__(self) -> None:
        self.collection = pb.Collection()
        self.members: dict[int, pb.Member] = {}
        """By number."""

        self.under_way: dict[int, float | None] = {}
        """How far each member is that somebody hears now; None while nobody knows."""

        self._states: Counter[pb.MemberState.ValueType] = Counter()

    def take(self, update: service_pb.WatchCollectionResponse) -> pb.Member | None:
        """The member whose state this update changed, if any."""
        match update.WhichOneof("update"):
            case "collection":
                self.collection.CopyFrom(update.collection)
            case "progress":
                self._move(update.progress)
            case "member":
                return self._place(update.member)
        return None

    def _move(self, live: pb.MemberProgress) -> None:
        member = self.members.get(live.number)
        # One that timed out may still be heard, and end late.
        if member is not None and member.state in (
            pb.MEMBER_STATE_RUNNING,
            pb.MEMBER_STATE_TIMED_OUT,
        ):
            self.under_way[live.number] = live.progress if live.HasField("progress") else None

    def _place(self, member: pb.Member) -> pb.Member | None:
        before = self.members.get(member.number)
        self.members[member.number] = member
        if member.state != pb.MEMBER_STATE_RUNNING:
            self.under_way.pop(member.number, None)
        elif before is None or before.attempt != member.attempt or member.HasField("progress"):
            self.under_way[member.number] = member.progress if member.HasField("progress") else None
        if before is not None and before.state == member.state:
            return None
        if before is not None:
            self._states[before.state] -= 1
        self._states[member.state] += 1
        return member

    @property
    def counts(self) -> dict[str, int]:
        """Members by state as we heard of them; updates of the collection do not tell."""
        known = pb.MemberState.values()
        return in_order(
            {member_state(state): count for state, count in self._states.items() if state in known}
        )

    @property
    def ended(self) -> int:
        """Members that ended, or were given up at the deadline."""
        return sum(count for state, count in self._states.items() if state in ENDED)

    @property
    def gathered(self) -> bool:
        """Whether the aggregate is there, and we have heard of every member in it."""
        return (
            self.collection.HasField("end_time")
            and self.ended == len(self.members) >= self.collection.member_count
        )
