"""Batches: stored events as they go out to watchers, one by one or several in a message."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ytcaption.v1 import event_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

MAX_JOINED_BYTES = 16 * 1024
"""More would cost too much memory when many watchers stall."""


@dataclass(frozen=True)
class LoggedEvent:
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
        """The message, built once for all watchers."""
        return pb.WatchJobResponse(sequence=self.sequence, event=self.event)


@dataclass(frozen=True)
class EventBatch:
    """Several stored events."""

    events: tuple[LoggedEvent, ...]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.events)

    @cached_property
    def response(self) -> pb.WatchJobResponse:
        """The message, built once for all watchers at the same position."""
        stored = [pb.StoredEvent(sequence=one.sequence, event=one.event) for one in self.events]
        return pb.WatchJobResponse(
            sequence=self.events[-1].sequence, events=pb.StoredEvents(events=stored)
        )


class Batcher:
    """Joins events behind a position; watchers at one position share the batch."""

    def __init__(self, entries: Sequence[LoggedEvent]) -> None:
        self._entries = entries
        self._newest: tuple[tuple[int, int], LoggedEvent | EventBatch] | None = None

    def join(self, begin: int) -> LoggedEvent | EventBatch:
        """The event at that position with as many that follow as fit into one batch."""
        end, size = begin + 1, self._entries[begin].size
        while end < len(self._entries) and size + self._entries[end].size <= MAX_JOINED_BYTES:
            size += self._entries[end].size
            end += 1
        if end == begin + 1:
            return self._entries[begin]
        if self._newest is None or self._newest[0] != (begin, end):
            self._newest = (begin, end), EventBatch(tuple(self._entries[begin:end]))
        return self._newest[1]
