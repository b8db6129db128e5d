"""The state of a watched collection, folded from the updates of its watch."""

from collections import Counter
from collections.abc import Mapping

from cli.render.messages import member_state
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb
from ytcaption.v1 import task_pb2

GOING = (pb.MEMBER_STATE_UNSPECIFIED, pb.MEMBER_STATE_PENDING, pb.MEMBER_STATE_RUNNING)
ENDED = frozenset(pb.MemberState.values()) - frozenset(GOING)
ORDER = ("completed", "running", "pending", "failed", "timed out", "cancelled")
"""The order in which counts are shown."""


def counts_of(collection: pb.Collection) -> dict[str, int]:
    """Members by state as the server counts them."""
    return _in_order({member_state(one.state): one.count for one in collection.counts})


def _in_order(counts: Mapping[str, int]) -> dict[str, int]:
    """Leaves out states without members; states of a newer server come last."""
    known = [*ORDER, *(name for name in counts if name not in ORDER)]
    return {name: counts[name] for name in known if counts.get(name)}


def count_summary(counts: Mapping[str, int]) -> str:
    """27 completed, 3 failed."""
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no members"


class CollectionProjection:
    """Projection of a watch: the collection, its members, and their counts."""

    def __init__(self) -> None:
        self.collection = pb.Collection()
        self.members: dict[int, pb.Member] = {}
        """By number."""

        self.subtasks: dict[int, task_pb2.Subtask] = {}
        """What collectors and executors do, by number."""

        self.under_way: dict[int, float | None] = {}
        """Progress of each member that is being transcribed; None while it is unknown."""

        self._states: Counter[pb.MemberState.ValueType] = Counter()

    def apply(self, update: service_pb.WatchCollectionResponse) -> pb.Member | None:
        """Folds one update in; returns the member whose state it changed, if any."""
        match update.WhichOneof("update"):
            case "collection":
                self.collection.CopyFrom(update.collection)
            case "subtask":
                self.subtasks[update.subtask.number] = update.subtask
            case "progress":
                self._apply_progress(update.progress)
            case "member":
                return self._apply_member(update.member)
        return None

    def _apply_progress(self, update: pb.MemberProgress) -> None:
        member = self.members.get(update.number)
        # A member that timed out may still run, and end late.
        if member is not None and member.state in (
            pb.MEMBER_STATE_RUNNING,
            pb.MEMBER_STATE_TIMED_OUT,
        ):
            self.under_way[update.number] = update.progress if update.HasField("progress") else None

    def _apply_member(self, member: pb.Member) -> pb.Member | None:
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
        """Members by state, counted from member updates: collection updates carry no counts."""
        known = pb.MemberState.values()
        return _in_order(
            {member_state(state): count for state, count in self._states.items() if state in known}
        )

    @property
    def ended(self) -> int:
        """Members that ended, or timed out at the deadline."""
        return sum(count for state, count in self._states.items() if state in ENDED)

    @property
    def gathered(self) -> bool:
        """Whether the collection has its result, and the watch has delivered all its members."""
        return (
            self.collection.HasField("end_time")
            and self.ended == len(self.members) >= self.collection.member_count
        )
