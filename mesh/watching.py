"""Watches a job or collection to its end, or a list, and reconnects when the connection drops."""

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
"""Status codes of a server that went away."""

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
PATIENCE_SECONDS = 120.0
"""How long to keep reconnecting after the server's last message."""

UpdateT = TypeVar("UpdateT")
CallT = TypeVar("CallT", bound=grpc.aio.Call)


def follow(
    pipeline: PipelineServiceStub,
    job_id: str,
    after_sequence: int = 0,
    *,
    on_cut: Callable[[], None] = lambda: None,
    patience_seconds: float | None = PATIENCE_SECONDS,
) -> AsyncGenerator[pb.WatchJobResponse, None]:
    """Every update once, in order, until the job is terminal.

    A server that never answered is not waited for, unless the caller has seen earlier events: then
    the server exists. With patience None any server is waited for, however long.
    """
    watch = partial(_watch, pipeline, job_id)
    return _reconnecting(watch, after_sequence, on_cut, patience_seconds)


def follow_collection(
    collections: CollectionServiceStub,
    collection_id: str,
    after_sequence: int = 0,
    *,
    on_cut: Callable[[], None] = lambda: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncGenerator[collection_pb.WatchCollectionResponse, None]:
    """Every change, in order, until the collection is settled.

    After a reconnect the collection's current state comes again, then each member that changed
    meanwhile, once. Otherwise like `follow`.
    """
    watch = partial(_watch_collection, collections, collection_id)
    return _reconnecting(watch, after_sequence, on_cut, patience_seconds)


async def follow_pages(
    call: "Callable[..., grpc.aio.UnaryStreamCall[Any, UpdateT]]",
    request: object,
    *,
    on_cut: Callable[[], None] = lambda: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncGenerator[UpdateT, None]:
    """A page of a list, then again whenever it has changed; it has no end.

    After a reconnect it comes again only if it has changed meanwhile. Otherwise like `follow`.
    """
    last: UpdateT | None = None
    watch = partial(_watch_pages, call, request)
    async with aclosing(_reconnecting(watch, 0, on_cut, patience_seconds)) as pages:
        async for page in pages:
            if page != last:
                yield page
                last = page


async def _reconnecting(
    watch: Callable[["_Position"], AsyncGenerator[UpdateT, None]],
    after_sequence: int,
    on_cut: Callable[[], None],
    patience_seconds: float | None,
) -> AsyncGenerator[UpdateT, None]:
    """Repeats the watch until one reaches the end."""
    position = _Position(after_sequence)
    while True:
        try:
            async with aclosing(watch(position)) as updates:
                async for update in updates:
                    yield update
        except grpc.aio.AioRpcError as error:
            if error.code() not in CUT_OFF or not position.received_within(patience_seconds):
                raise
            position.at_end = False  # more events may have followed
        if position.at_end:
            return
        on_cut()
        await position.pause()


class _Position:
    """The position in an event log, and when the server last sent something."""

    def __init__(self, after_sequence: int) -> None:
        self.after_sequence = after_sequence
        self.at_end = False
        self._received_at: float | None = monotonic() if after_sequence else None
        self._pause = FIRST_PAUSE_SECONDS

    def received_within(self, seconds: float | None) -> bool:
        if seconds is None:
            return True
        return self._received_at is not None and monotonic() - self._received_at <= seconds

    def advance_to(self, sequence: int) -> bool:
        """Whether an update with this sequence is new; one without a sequence always is."""
        self._received_at, self._pause = monotonic(), FIRST_PAUSE_SECONDS
        if sequence:
            if sequence <= self.after_sequence:
                return False
            self.after_sequence = sequence
        return True

    async def pause(self) -> None:
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)


@contextmanager
def cancelled_after(call: CallT) -> Iterator[CallT]:
    """Cancels the call afterwards: grpc.aio never frees an abandoned one."""
    try:
        yield call
    finally:
        call.cancel()


async def _watch(
    pipeline: PipelineServiceStub, job_id: str, position: _Position
) -> AsyncGenerator[pb.WatchJobResponse, None]:
    request = pb.WatchJobRequest(
        job_id=job_id, after_sequence=position.after_sequence, join_events=True
    )
    terminal = False
    with cancelled_after(pipeline.WatchJob(request, metadata=call_metadata())) as call:
        async for update in _one_by_one(call):
            terminal = terminal or update.job.state in TERMINAL
            if update.sequence:  # a replayed job continues after its end: only the server knows
                position.at_end = update.event.type == event_pb.EVENT_TYPE_JOB_FINISHED
            if position.advance_to(update.sequence):
                yield update
        # A watch that began after the last event ends without one.
        position.at_end = position.at_end or terminal


async def _one_by_one(
    call: AsyncIterable[pb.WatchJobResponse],
) -> AsyncIterator[pb.WatchJobResponse]:
    async for update in call:
        if update.WhichOneof("update") != "events":
            yield update
        for stored in update.events.events:
            yield pb.WatchJobResponse(sequence=stored.sequence, event=stored.event)


async def _watch_collection(
    collections: CollectionServiceStub, collection_id: str, position: _Position
) -> AsyncGenerator[collection_pb.WatchCollectionResponse, None]:
    request = collection_pb.WatchCollectionRequest(
        collection_id=collection_id, after_sequence=position.after_sequence
    )
    first = True
    with cancelled_after(collections.WatchCollection(request, metadata=call_metadata())) as call:
        async for update in call:
            if update.WhichOneof("update") == "collection":
                position.at_end = update.collection.settled
            # The first update is the current state, ahead of the members that follow.
            if position.advance_to(0 if first else update.sequence):
                yield update
            first = False


async def _watch_pages(
    call: "Callable[..., grpc.aio.UnaryStreamCall[Any, UpdateT]]",
    request: object,
    position: _Position,
) -> AsyncGenerator[UpdateT, None]:
    with cancelled_after(call(request, metadata=call_metadata())) as pages:
        async for page in pages:
            position.advance_to(0)
            yield page
