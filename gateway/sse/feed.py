"""Job feeds: one WatchJob call for all event streams of a running job, each event encoded once."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from math import inf
from operator import attrgetter

import grpc

from gateway.client import Orchestrator, mesh_error
from gateway.sse.buffer import MAX_EVENTS, ClosedError, UpdateBuffer, Updates, Wakeup
from gateway.sse.jobs import JobUpdate
from mesh.bearer import presented
from mesh.errors import MeshError
from mesh.watching import TERMINAL, follow
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

PROGRESS_GROUP = 20
PROGRESS_SECONDS = 0.02
"""At most a thousand progress updates of a job a second go out in all, as from an orchestrator."""


class JobFeeds:
    """The feeds of the jobs that are being streamed now."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._pipeline = orchestrator.pipeline
        self._open: dict[tuple[str, str], _Feed] = {}
        """By token, too: a feed shows a client no more than its own token may see."""

    def updates(self, job_id: str, after: int, job: job_pb2.Job | None) -> Updates[JobUpdate]:
        """Everything after a sequence; `job` is its state now, None while that is not known.

        Waits through any outage of the orchestrator: the stream stays open, without events.
        """
        if job is not None and job.state in TERMINAL:  # nothing is live, and the rest may be short
            watch = follow(self._pipeline, job_id, after, patience_seconds=inf)
            return UpdateBuffer(_as_updates(job_id, watch), _progress_key)
        return _Subscription(self, job_id, after, job)

    def of(self, job_id: str) -> "_Feed":
        """The feed of a job for the current token; opened if there is none."""
        key = presented(), job_id
        feed = self._open.get(key)
        if feed is None or feed.closed:
            watch = follow(self._pipeline, job_id, patience_seconds=None)
            feed = self._open[key] = _Feed(_as_updates(job_id, watch))
            feed.reader.add_done_callback(lambda _: self._forget(key))
        return feed

    def _forget(self, key: tuple[str, str]) -> None:
        if key in self._open and self._open[key].closed:
            del self._open[key]


async def _as_updates(
    job_id: str, watch: AsyncGenerator[pb.WatchJobResponse, None]
) -> AsyncGenerator[JobUpdate, None]:
    async with aclosing(watch):
        async for response in watch:
            yield JobUpdate.of(job_id, response)


def _progress_key(update: JobUpdate) -> int | None:
    return 0 if update.kind == "progress" else None


class _Feed:
    """One event log from its start, in memory once; a slow stream costs only its position.

    It is read as fast as the fastest stream takes it, so that flow control stops the orchestrator
    if none does.
    """

    def __init__(self, updates: AsyncGenerator[JobUpdate, None]) -> None:
        self.job: JobUpdate | None = None
        self.progress: JobUpdate | None = None
        self.closed = False
        self.failure: MeshError | None = None
        self._events: list[JobUpdate] = []
        self._furthest = 0
        """How many events the fastest stream has taken."""
        self._wanted = asyncio.Event()
        self._progressed = asyncio.Event()
        self._subscriptions: set[_Subscription] = set()
        # In its own task: that of a client may be cancelled at any moment.
        self.reader = asyncio.create_task(self._read(updates))

    def join(self, subscription: "_Subscription") -> None:
        """Wakes a subscription whenever there is something new."""
        self._subscriptions.add(subscription)

    def leave(self, subscription: "_Subscription") -> None:
        """Ends the watch with the last subscription."""
        self._subscriptions.discard(subscription)
        if not self._subscriptions:
            self.closed = True
            self.reader.cancel()

    def events(self, place: int) -> list[JobUpdate]:
        """The next few events from a place in the log on."""
        events = self._events[place : place + MAX_EVENTS]
        self._furthest = max(self._furthest, place)
        if self._furthest + MAX_EVENTS > len(self._events):
            self._wanted.set()
        return events

    def place(self, after: int, since: int) -> int:
        """The place of the first event after a sequence, at `since` or later."""
        return bisect_right(self._events, after, since, key=attrgetter("sequence"))

    async def _read(self, updates: AsyncGenerator[JobUpdate, None]) -> None:
        sharing = asyncio.create_task(self._share_progress())
        try:
            async with aclosing(updates):
                async for update in updates:
                    await self._put(update)
        except grpc.aio.AioRpcError as error:
            self.failure = mesh_error(error)
        finally:
            sharing.cancel()
            self.closed = True
            self._wake()

    async def _share_progress(self) -> None:
        """Wakes a few streams at a time: events overtake progress."""
        while True:
            await self._progressed.wait()
            self._progressed.clear()
            streams = list(self._subscriptions)
            for start in range(0, len(streams), PROGRESS_GROUP):
                for subscription in streams[start : start + PROGRESS_GROUP]:
                    subscription.progress = self.progress
                    subscription.awake.wake()
                await asyncio.sleep(PROGRESS_SECONDS)

    async def _put(self, update: JobUpdate) -> None:
        match update.kind:
            case "job":
                self.job = update
            case "progress":
                self.progress = update
                self._progressed.set()
                return
            case _:
                self._events.append(update)
        self._wake()
        while len(self._events) - self._furthest >= MAX_EVENTS:
            self._wanted.clear()
            await self._wanted.wait()

    def _wake(self) -> None:
        for subscription in self._subscriptions:
            subscription.awake.wake()


class _Subscription:
    """The position of one stream in the feed of its job."""

    def __init__(self, feeds: JobFeeds, job_id: str, after: int, job: job_pb2.Job | None) -> None:
        self._open = partial(feeds.of, job_id)
        self._after = after
        self._place = 0
        self._job = job
        self._feed: _Feed | None = None
        self._pending: list[JobUpdate] = []
        self._seen_job: JobUpdate | None = None
        self._closed = False
        self.progress: JobUpdate | None = None
        self.awake = Wakeup()

    def open(self) -> _Feed:
        if self._feed is None:
            self._feed = feed = self._open()
            feed.join(self)
            self.progress = feed.progress
            if feed.job and self._job:  # the feed's own may be old
                self._pending.append(JobUpdate.of_job(self._job))
                self._seen_job = feed.job
        return self._feed

    def close(self) -> None:
        self._closed = True
        self.awake.close()
        if self._feed is not None:
            self._feed.leave(self)

    async def next(self, seconds: float) -> list[JobUpdate]:
        feed = self.open()
        while not (updates := self._take(feed)):
            if feed.closed or self._closed:
                raise feed.failure or ClosedError
            if not await self.awake.wait(seconds):
                break
        return updates

    def _take(self, feed: _Feed) -> list[JobUpdate]:
        updates, self._pending = self._pending, []
        if feed.job and feed.job is not self._seen_job:
            self._seen_job = feed.job
            updates.append(feed.job)
        self._place = feed.place(self._after, self._place)
        updates += (events := feed.events(self._place))
        if events:
            self._after = events[-1].sequence
            self._place += len(events)
        if self.progress and len(events) < MAX_EVENTS:
            updates.append(self.progress)
            self.progress = None
        return updates
