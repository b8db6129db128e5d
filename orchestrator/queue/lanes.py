"""The lanes of the work queue, and the order in which they are served."""

from collections import deque
from hashlib import sha256

from ytcaption.v1 import job_pb2

GROUPS = 16
"""Lanes of each priority. Callers are hashed to a lane; those in the same lane share its turns."""

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

    A collection takes turns with callers, as if it were a caller of its own.
    """
    owner = job.collection_id or job.caller
    group = int.from_bytes(sha256(owner.encode()).digest()[:8], "big") % GROUPS
    return _name(PRIORITIES.get(job.priority, NORMAL), group)


def _name(priority: str, group: int) -> str:
    return f"{priority}-{group:02}"


LANES = tuple(_name(priority, group) for priority in PRIORITIES.values() for group in range(GROUPS))


class LaneRotation:
    """Decides which lane is served next: within a priority the one served longest ago."""

    def __init__(self) -> None:
        self._rings = {
            priority: deque(_name(priority, group) for group in range(GROUPS))
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
        return [lane for priority in priorities for lane in self._rings[priority]]

    def served(self, lane: str) -> None:
        """Moves the lane to the end of its priority."""
        ring = self._rings[lane.partition("-")[0]]
        ring.remove(lane)
        ring.append(lane)
        self._served += 1
