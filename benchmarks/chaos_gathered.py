"""What became of the collection in the chaos, counted and judged."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as pb

COMPLETED = collection_pb2.MEMBER_STATE_COMPLETED
SUBTASK_COMPLETED = task_pb2.SUBTASK_STATE_COMPLETED
UNDER_WAY = (collection_pb2.MEMBER_STATE_PENDING, collection_pb2.MEMBER_STATE_RUNNING)


@dataclass(slots=True)
class SeenCollection:
    """The updates a watcher received over all its connections."""

    sequences: list[int] = field(default_factory=list)
    ends: Counter[int] = field(default_factory=Counter)
    """By number: how often a member was said to have ended."""
    completions: Counter[int] = field(default_factory=Counter)
    """By number: how often a subtask was said to be completed."""
    cuts: int = 0
    settled: bool = False

    @property
    def last(self) -> int:
        """Where to go on."""
        return self.sequences[-1] if self.sequences else 0

    def note(self, update: pb.WatchCollectionResponse) -> None:
        """Takes one update in."""
        if update.sequence:
            self.sequences.append(update.sequence)
        if update.HasField("member") and update.member.state not in UNDER_WAY:
            self.ends[update.member.number] += 1
        if update.HasField("subtask") and update.subtask.state == SUBTASK_COMPLETED:
            self.completions[update.subtask.number] += 1
        self.settled = self.settled or (bool(update.sequence) and update.collection.settled)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that can be known of a collection when all is over."""

    expected: Sequence[str]
    """Addresses asked for, each once."""
    record: collection_pb2.Collection
    """As it is stored."""
    fold: collection_pb2.Collection
    """As its event log has it."""
    members: Sequence[collection_pb2.Member]
    newest: Sequence[int]
    """Places in the event log of what every watcher must know: the last word on everything."""
    seen: SeenCollection
    succeeded: int
    """Jobs of members."""
    second_results: int
    """Jobs of members whose event log has more than one result or end."""
    differing: int
    """Members that were heard otherwise than undisturbed."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What became of the collection."""

    members: int
    lost: int
    """Never found, or found and not completed."""
    doubled: int
    """An address or job twice, a member ended twice, or a job with two results."""
    differing: int
    repeated: int
    missed: int
    disagreeing: int
    """Of the record, its event log, the members and their jobs: those whose count is not right."""
    cuts: int
    kills: int
    """That fell while it ran."""

    def figures(self) -> dict[str, int]:
        """All must be 0."""
        return {
            "members lost": self.lost,
            "members counted twice": self.doubled,
            "members' transcripts that differ": self.differing,
            "changes of members a watcher saw twice": self.repeated,
            "changes of members a watcher missed": self.missed,
            "counts of members that are wrong": self.disagreeing,
        }


def weigh(found: Evidence, kills: int = 0) -> Gathered:
    """Compares what was asked for with what is stored, and that with what the watcher saw."""
    addresses = [member.source_url for member in found.members]
    completed = {member.source_url for member in found.members if member.state == COMPLETED}
    sequences = found.seen.sequences
    return Gathered(
        members=len(found.members),
        lost=len(set(found.expected) - completed),
        doubled=_repeated(addresses)
        + _repeated([member.job_id for member in found.members])
        + len(set(addresses) - set(found.expected))
        + sum(count - 1 for count in found.seen.ends.values())
        + found.second_results,
        differing=found.differing,
        repeated=sum(later <= earlier for earlier, later in pairwise(sequences)),
        missed=len(set(found.newest) - set(sequences)),
        disagreeing=_disagreeing(found),
        cuts=found.seen.cuts,
        kills=kills,
    )


def _repeated(words: Sequence[str]) -> int:
    return len(words) - len(set(words))


def _disagreeing(found: Evidence) -> int:
    right = {COMPLETED: len(found.expected)}
    tallies: list[Mapping[int, int]] = [
        {one.state: one.count for one in found.record.counts},
        {one.state: one.count for one in found.fold.counts},
        {COMPLETED: found.record.member_count},
        Counter(member.state for member in found.members),
        {COMPLETED: found.succeeded},
    ]
    return sum(tally != right for tally in tallies)
