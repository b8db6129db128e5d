"""Stored events as they go out to watchers: one by one, or those that wait together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ytcaption.v1 import event_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

MAX_JOINED_BYTES = 16 * 1024
"""More would cost too much memory where many watchers stall."""


@dataclass(frozen=True)
class Told:
    """One stored event."""

    sequence: int
    event: event_pb2.Event

    count = 1

    @cached_property
    def size(self) -> int:
        """Bytes on the wire."""
        return self.event.ByteSize()

    @cached_property
    def response(self) -> pb.WatchJobResponse:
        """As it goes out; made once for all watchers."""
        return pb.WatchJobResponse(sequence=self.sequence, event=self.event)


@dataclass(frozen=True)
class Joined:
    """Several stored events."""

    events: tuple[Told, ...]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.events)

    @cached_property
    def response(self) -> pb.WatchJobResponse:
        """As they go out; made once for all watchers at the same place."""
        stored = [pb.StoredEvent(sequence=one.sequence, event=one.event) for one in self.events]
        return pb.WatchJobResponse(
            sequence=self.events[-1].sequence, events=pb.StoredEvents(events=stored)
        )


class Joiner:
    """Joins what waits behind a place in the story; a crowd at one place shares the work."""

    def __init__(self, told: Sequence[Told]) -> None:
        self._told = told
        self._newest: tuple[tuple[int, int], Told | Joined] | None = None

    def join(self, begin: int) -> Told | Joined:
        """The event at that place with as many that follow as may travel together."""
        end, size = begin + 1, self._told[begin].size
        while end < len(self._told) and size + self._told[end].size <= MAX_JOINED_BYTES:
            size += self._told[end].size
            end += 1
        if end == begin + 1:
            return self._told[begin]
        if self._newest is None or self._newest[0] != (begin, end):
            self._newest = (begin, end), Joined(tuple(self._told[begin:end]))
        return self._newest[1]
