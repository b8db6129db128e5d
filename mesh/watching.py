"""Follows a job or a collection to its end, or a list, through every cut of the connection."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import grpc

from mesh.correlation import call_metadata
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import event_pb2 as event_pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub
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

UpdateT = TypeVar("UpdateT")
CallT = TypeVar("CallT", bound=grpc.aio.Call)


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
    place = _Place(after_sequence)
    watch = partial(_watch, pipeline, job_id, place)
    async with aclosing(_through_cuts(watch, place, on_cut, patience_seconds)) as updates:
        async for update in updates:
            yield update


async def follow_collection(
    collections: CollectionServiceStub,
    collection_id: str,
    after_sequence: int = 0,
    *,
    on_cut: Callable[[], None] = lambda: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncGenerator[collection_pb.WatchCollectionResponse, None]:
    """Every change, in order, until the collection is settled.

    After a cut the collection as it stands comes again, then the members that changed meanwhile,
    each once. Otherwise as `follow`.
    """
    place = _Place(after_sequence)
    watch = partial(_watch_collection, collections, collection_id, place)
    async with aclosing(_through_cuts(watch, place, on_cut, patience_seconds)) as updates:
        async for update in updates:
            yield update


async def follow_pages(
    call: "Callable[..., grpc.aio.UnaryStreamCall[Any, UpdateT]]",
    request: object,
    *,
    on_cut: Callable[[], None] = lambda: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncGenerator[UpdateT, None]:
    """A page of a list as it is, then whenever it has changed; a list has no end.

    After a cut it comes again only if it has changed meanwhile. Otherwise as `follow`.
    """
    place = _Place(0)
    told: UpdateT | None = None
    watch = partial(_watch_pages, call, request, place)
    async with aclosing(_through_cuts(watch, place, on_cut, patience_seconds)) as pages:
        async for page in pages:
            if page != told:
                yield page
                told = page


async def _through_cuts(
    watch: Callable[[], AsyncGenerator[UpdateT, None]],
    place: "_Place",
    on_cut: Callable[[], None],
    patience_seconds: float,
) -> AsyncGenerator[UpdateT, None]:
    """One watch after another, until one has told the end."""
    while True:
        try:
            async with aclosing(watch()) as updates:
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


class _Place:
    """How far into a story we are."""

    def __init__(self, after_sequence: int) -> None:
        self.after_sequence = after_sequence
        self.at_end = False
        self._heard_at: float | None = monotonic() if after_sequence else None
        self._pause = FIRST_PAUSE_SECONDS

    def heard_within(self, seconds: float) -> bool:
        return self._heard_at is not None and monotonic() - self._heard_at <= seconds

    def moved_to(self, sequence: int) -> bool:
        """Whether what has this place is news; what has none always is."""
        self._heard_at, self._pause = monotonic(), FIRST_PAUSE_SECONDS
        if sequence:
            if sequence <= self.after_sequence:
                return False
            self.after_sequence = sequence
        return True

    async def pause(self) -> None:
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)


@contextmanager
def _left(call: CallT) -> Iterator[CallT]:
    """Cancels it afterwards: abandoned calls are never collected."""
    try:
        yield call
    finally:
        call.cancel()


async def _watch(
    pipeline: PipelineServiceStub, job_id: str, place: _Place
) -> AsyncGenerator[pb.WatchJobResponse, None]:
    request = pb.WatchJobRequest(
        job_id=job_id, after_sequence=place.after_sequence, join_events=True
    )
    terminal = False
    with _left(pipeline.WatchJob(request, metadata=call_metadata())) as call:
        async for update in _one_by_one(call):
            terminal = terminal or _is_terminal(update)
            if update.sequence:  # a replayed job goes on after its end: only the server knows
                place.at_end = _ends_a_life(update)
            if place.moved_to(update.sequence):
                yield update
        # A watch that began after the last event ends without one.
        place.at_end = place.at_end or terminal


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


async def _watch_collection(
    collections: CollectionServiceStub, collection_id: str, place: _Place
) -> AsyncGenerator[collection_pb.WatchCollectionResponse, None]:
    request = collection_pb.WatchCollectionRequest(
        collection_id=collection_id, after_sequence=place.after_sequence
    )
    first = True
    with _left(collections.WatchCollection(request, metadata=call_metadata())) as call:
        async for update in call:
            if update.WhichOneof("update") == "collection":
                place.at_end = update.collection.settled
            # The first tells how things stand, ahead of the members that are still to come.
            if place.moved_to(0 if first else update.sequence):
                yield update
            first = False


async def _watch_pages(
    call: "Callable[..., grpc.aio.UnaryStreamCall[Any, UpdateT]]", request: object, place: _Place
) -> AsyncGenerator[UpdateT, None]:
    with _left(call(request, metadata=call_metadata())) as pages:
        async for page in pages:
            place.moved_to(0)
            yield page
