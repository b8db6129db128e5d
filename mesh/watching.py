"""Follows a job to its end, through every cut of the connection."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import aclosing
from time import monotonic

import grpc

from mesh.correlation import call_metadata
from ytcaption.v1 import event_pb2 as event_pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub

TERMINAL = frozenset(
    {job_pb.JOB_STATE_SUCCEEDED, job_pb.JOB_STATE_FAILED, job_pb.JOB_STATE_CANCELLED}
)
CUT_OFF = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN}
)
"""How a server that goes away looks from here."""

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
PATIENCE_SECONDS = 120.0
"""After this long without a word from the server we give up."""


async def follow(
    pipeline: PipelineServiceStub,
    job_id: str,
    after_sequence: int = 0,
    *,
    on_cut: Callable[[], None] = lambda: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncGenerator[pb.WatchJobResponse, None]:
    """Every update once, in order, until the job is terminal.

    A server that never answered at all is not waited for, unless the caller was told of earlier
    events: then there is one.
    """
    place = Place(after_sequence)
    while True:
        try:
            async with aclosing(_watch(pipeline, job_id, place)) as updates:
                async for update in updates:
                    yield update
        except grpc.aio.AioRpcError as error:
            if error.code() not in CUT_OFF or not place.heard_within(patience_seconds):
                raise
            place.at_end = False  # there may have been more to tell
        if place.at_end:
            return
        on_cut()
        await place.pause()


class Place:
    """How far into a story we are."""

    def __init__(self, after_sequence: int) -> None:
        self.after_sequence = after_sequence
        self.at_end = False
        self._heard_at: float | None = monotonic() if after_sequence else None
        self._pause = FIRST_PAUSE_SECONDS

    def heard_within(self, seconds: float) -> bool:
        """Whether the server spoke so lately."""
        return self._heard_at is not None and monotonic() - self._heard_at <= seconds

    def moved_to(self, sequence: int) -> bool:
        """Whether what has that place is news; what has none always is."""
        self._heard_at, self._pause = monotonic(), FIRST_PAUSE_SECONDS
        if sequence:
            if sequence <= self.after_sequence:
                return False
            self.after_sequence = sequence
        return True

    async def pause(self) -> None:
        """Waits, longer each time, until we may ask again."""
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)


async def _watch(
    pipeline: PipelineServiceStub, job_id: str, place: Place
) -> AsyncGenerator[pb.WatchJobResponse, None]:
    request = pb.WatchJobRequest(
        job_id=job_id, after_sequence=place.after_sequence, join_events=True
    )
    call = pipeline.WatchJob(request, metadata=call_metadata())
    terminal = False
    try:
        async for update in _one_by_one(call):
            terminal = terminal or _is_terminal(update)
            if update.sequence:  # a replayed job goes on after its end: only the server knows
                place.at_end = _ends_a_life(update)
            if place.moved_to(update.sequence):
                yield update
        # A watch that began after the last event ends without one.
        place.at_end = place.at_end or terminal
    finally:
        # Abandoned calls are never collected.
        call.cancel()


async def _one_by_one(
    call: AsyncIterable[pb.WatchJobResponse],
) -> AsyncIterator[pb.WatchJobResponse]:
    async for update in call:
        if update.WhichOneof("update") != "events":
            yield update
        for stored in update.events.events:
            yield pb.WatchJobResponse(sequence=stored.sequence, event=stored.event)


def _is_terminal(update: pb.WatchJobResponse) -> bool:
    return update.WhichOneof("update") == "job" and update.job.state in TERMINAL


def _ends_a_life(update: pb.WatchJobResponse) -> bool:
    return update.event.type == event_pb.EVENT_TYPE_JOB_FINISHED
