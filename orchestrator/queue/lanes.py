"""The lanes of the work queue, and the order in which they are served."""

from collections import deque
from hashlib import sha256

from ytcaption.v1 import job_pb2

GROUPS = 16
"""Groups of lanes in each priority. Owners are hashed to a group; those in one share its turns."""
PARTS = 4
"""Lanes within a group among which the callers of its owners are spread."""

HIGH, NORMAL, LOW = "high", "normal", "low"
PRIORITIES = {
    job_pb2.PRIORITY_HIGH: HIGH,
    job_pb2.PRIORITY_NORMAL: NORMAL,
    job_pb2.PRIORITY_LOW: LOW,
}
NORMAL_EVERY, LOW_EVERY = 4, 16
"""Normal-priority lanes get every fourth turn, low-priority lanes every sixteenth."""


def lane_of(job: job_pb2.Job) -> str:
    """The lane of a job, derived from its record alone, so that it never changes.

    Owners take turns, and within an owner its callers. Where jobs have no owner, callers take turns
    as if each were an owner. A collection counts as a caller of its own.
    """
    if not job.owner:
        return lane_of_caller(job)
    group, part = _hashed(job.owner, GROUPS), _hashed(_caller_of(job), PARTS)
    return f"{_group_of(job.priority, group)}-{part}"


def lane_of_caller(job: job_pb2.Job) -> str:
    """The lane by the caller alone: of jobs without an owner, and once of all jobs."""
    return _group_of(job.priority, _hashed(_caller_of(job), GROUPS))


def _caller_of(job: job_pb2.Job) -> str:
    return job.collection_id or job.caller


def _hashed(name: str, buckets: int) -> int:
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big") % buckets


def _group_of(priority: "job_pb2.Priority.ValueType", group: int) -> str:
    return _name(PRIORITIES.get(priority, NORMAL), group)


def _name(priority: str, group: int) -> str:
    return f"{priority}-{group:02}"


def _lanes_of(group: str) -> tuple[str, ...]:
    """The lane of jobs without an owner, then those of owners."""
    return (group, *(f"{group}-{part}" for part in range(PARTS)))


LANES = tuple(
    lane
    for priority in PRIORITIES.values()
    for group in range(GROUPS)
    for lane in _lanes_of(_name(priority, group))
)


class LaneRotation:
    """Decides which lane is served next.

    Within a priority the group served longest ago, within a group the lane served longest ago.
    """

    def __init__(self) -> None:
        self._rings = {
            priority: deque(deque(_lanes_of(_name(priority, group))) for group in range(GROUPS))
            for priority in PRIORITIES.values()
        }
        self._served = 0

    def order(self) -> list[str]:
        """All lanes; the first that has work should be served."""
        turn = self._served + 1
        favoured = NORMAL if turn % NORMAL_EVERY == 0 else HIGH
        if turn % LOW_EVERY == 0:
            favoured = LOW
        priorities = sorted(self._rings, key=lambda priority: priority != favoured)
        return [
            lane for priority in priorities for group in self._rings[priority] for lane in group
        ]

    def served(self, lane: str) -> None:
        """Moves the lane to the end of its group, and the group to the end of its priority."""
        ring = self._rings[lane.partition("-")[0]]
        group = next(lanes for lanes in ring if lane in lanes)
        ring.remove(group)
        ring.append(group)
        group.remove(lane)
        group.append(lane)
        self._served += 1
