"""The lanes of the work queue, and whose turn it is."""

from collections import deque
from hashlib import sha256

from ytcaption.v1 import job_pb2

GROUPS = 16
"""Callers are spread over so many lanes of each priority; those who meet in one share its turns."""

HIGH, NORMAL, LOW = "high", "normal", "low"
PRIORITIES = {
    job_pb2.PRIORITY_HIGH: HIGH,
    job_pb2.PRIORITY_NORMAL: NORMAL,
    job_pb2.PRIORITY_LOW: LOW,
}
NORMAL_EVERY, LOW_EVERY = 4, 16
"""Every so manieth turn is theirs, however much of higher priority waits."""


def lane_of(job: job_pb2.Job) -> str:
    """Where a job waits: told by its record alone, so that it has one place at all times.

    A collection takes turns with everyone else, as if it were a caller of its own.
    """
    whose = job.collection_id or job.caller
    group = int.from_bytes(sha256(whose.encode()).digest()[:8], "big") % GROUPS
    return _name(PRIORITIES.get(job.priority, NORMAL), group)


def _name(priority: str, group: int) -> str:
    return f"{priority}-{group:02}"


LANES = tuple(_name(priority, group) for priority in PRIORITIES.values() for group in range(GROUPS))


class Turns:
    """Within a priority the lane served longest ago comes first."""

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
        """It had its turn."""
        ring = self._rings[lane.partition("-")[0]]
        ring.remove(lane)
        ring.append(lane)
        self._served += 1
