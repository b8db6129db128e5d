"""Takes work from the queue and sees each job through to an end, or to its next attempt."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import Bus, outlast
from mesh.errors import MeshError, NotFoundError
from mesh.tasks import side_by_side
from orchestrator.artifacts import SOURCE, Artifacts
from orchestrator.attempt import PATIENCE_SECONDS, Attempt
from orchestrator.cache import Cache
from orchestrator.dispatcher import Dispatcher
from orchestrator.ending import tell_end
from orchestrator.gate import Gate
from orchestrator.history import History, read_history
from orchestrator.jobs import ACTIVE, ConflictError, Jobs, Kept
from orchestrator.lease import Lease, LostError
from orchestrator.parking import Parking, Place, seconds_away
from orchestrator.pipeline import Pipeline
from orchestrator.queue import WorkQueue, give_back, replay_of_item
from orchestrator.replay import Replays
from orchestrator.settings import Settings
from orchestrator.story import StoryReader, StoryWriter, open_story
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

HALF_MADE_SECONDS = 30
"""CreateJob stores the work item first: one whose job never follows is dropped after this."""


@dataclass(frozen=True, slots=True)
class _Blocked:
    """The job needs something first that is not there."""

    until_free: Callable[[], Awaitable[None]]


class Runner:
    """Works on several jobs at once."""

    def __init__(  # noqa: PLR0913 # everything a job needs
        self,
        bus: Bus,
        settings: Settings,
        queue: WorkQueue,
        pipeline: Pipeline,
        gate: Gate,
        cache: Cache,
    ) -> None:
        self._cache = cache
        self._gate = gate
        self._bus = bus
        self._settings = settings
        self._queue = queue
        self._dispatcher = Dispatcher(bus, queue)
        self._parking = Parking(bus)
        self._artifacts = Artifacts(bus, patience_seconds=PATIENCE_SECONDS)
        self._places = asyncio.Semaphore(settings.concurrency)
        self._pipeline = pipeline
        self._jobs = Jobs(bus)
        self._replays = Replays(bus, queue, max_attempts=settings.max_attempts)

    async def run(self) -> None:
        """Works until cancelled; a job under way is then given back."""
        async with self._dispatcher.listening():
            await side_by_side(self._next, self._take)

    async def _next(self) -> Msg:
        """The next item, and a place for it."""
        # Waited for, not kept while we wait for work: a job that was parked may come back first.
        async with self._places:
            pass
        await self._gate.until_open()
        message = await self._dispatcher.next()
        try:
            async with self._queue.kept_alive(message):
                await self._places.acquire()
        except asyncio.CancelledError:
            await asyncio.shield(give_back(message))
            raise
        return message

    async def _take(self, message: Msg) -> None:
        place = Place(self._places)
        try:
            item = job_pb2.WorkItem.FromString(message.data)
            with bound_contextvars(job_id=item.job_id, correlation_id=item.correlation_id):
                await self._handle(message, item, place)
        except DecodeError:  # no job of ours; left there it would come back for ever
            log.warning("a work item that is none is dropped", subject=message.subject)
            with suppress(NatsError):
                await message.term()
        finally:
            place.leave()

    async def _handle(self, message: Msg, item: job_pb2.WorkItem, place: Place) -> None:
        """One delivery; whatever goes wrong here must not end the runner."""
        try:
            async with self._queue.kept_alive(message):
                wait = await self._work_or_park(message, item, place)
            if wait is None:
                await message.ack_sync()
            else:
                await message.nak(delay=wait)
                self._dispatcher.expect(message.subject, wait)
        except (LostError, ConflictError):
            log.warning("another runner has the job")
        except asyncio.CancelledError:
            await asyncio.shield(give_back(message))
            raise
        except Exception as error:  # unacknowledged, so it is delivered again
            expected = isinstance(error, MeshError)
            log.warning("the job will be delivered again", error=str(error), exc_info=not expected)

    async def _work_or_park(
        self, message: Msg, item: job_pb2.WorkItem, place: Place
    ) -> float | None:
        """Seconds until the next attempt, or None if nothing is left to do."""
        while isinstance(outcome := await self._work(message, item), _Blocked):
            if self._parking.full:
                return seconds_away(message.metadata.num_delivered)
            place.leave()
            with self._parking.space():
                await outcome.until_free()
            await place.take()
        return outcome

    async def _work(self, message: Msg, item: job_pb2.WorkItem) -> "float | _Blocked | None":
        try:
            kept = await outlast(lambda: self._jobs.get(item.job_id))
        except NotFoundError:
            return _wait_for_record(item)
        if message.subject != self._queue.subject_of(kept.job):
            # Left by an earlier try of the request, which died, under another caller's name.
            return None
        if replay_of := replay_of_item(message.headers):
            kept = await self._replays.complete(item.job_id, replay_of)
        if not kept.terminal:
            return await self._share_or_attempt(kept)
        history = await self._read_history(item.job_id)
        if not history.finished:  # the last runner died between the record and the story
            story = StoryWriter(self._bus, kept.job, history.last_sequence)
            await tell_end(self._bus, kept.job, story, result_told=history.result_told)
        return None

    async def _share_or_attempt(self, kept: Kept) -> "float | _Blocked | None":
        """One run serves identical jobs, those that came while it was under way included."""
        twin = await self._cache.twin_of(kept.record)
        if twin is None or kept.record.cancel_requested:
            return await self._attempt_if_possible(kept)
        if twin.state in ACTIVE:
            return _Blocked(partial(self._parking.until_ended, kept.job.job_id, twin.job_id))
        try:
            await self._cache.serve(kept, await self._history(kept.job), twin)
        except NotFoundError:  # its files went away this very moment
            return await self._attempt_if_possible(kept)
        return None

    async def _attempt_if_possible(self, kept: Kept) -> "float | _Blocked | None":
        """Who has its recording already needs no downloader."""
        fetches = bool(kept.job.source.url) and not kept.record.cancel_requested
        if fetches and not await self._gate.can_fetch():
            kept_download = await self._artifacts.size(kept.job.job_id, SOURCE)
            if kept_download is None:
                return _Blocked(self._gate.until_can_fetch)
        return await self._attempt(kept)

    async def _attempt(self, kept: Kept) -> float | None:
        accepted = job_pb2.Job()
        accepted.CopyFrom(kept.job)
        lease = Lease(self._jobs, kept)
        # Before anything else of the job is touched: what kills us from here on is counted.
        await lease.take()
        history = await self._history(accepted)

        async def on_cancel(_: Msg) -> None:
            lease.cancel_requested.set()

        cancels = await self._bus.client.subscribe(
            self._bus.names.cancel(kept.job.job_id), cb=on_cancel
        )
        try:
            attempt = Attempt(self._bus, self._settings, self._pipeline, lease, history)
            return await attempt.run()
        finally:
            if not self._bus.client.is_closed:
                await cancels.unsubscribe()

    async def _history(self, accepted: job_pb2.Job) -> History:
        """The story so far; one that is not there, or ends with an earlier life, is opened."""
        history = await self._read_history(accepted.job_id)
        if not history.last_sequence or history.finished:
            await open_story(self._bus, accepted, history.last_sequence)
            history = await self._read_history(accepted.job_id)
        return history

    async def _read_history(self, job_id: str) -> History:
        return await read_history(StoryReader(self._bus), job_id, patience_seconds=PATIENCE_SECONDS)


def _wait_for_record(item: job_pb2.WorkItem) -> float | None:
    age = datetime.now(UTC) - item.enqueue_time.ToDatetime(UTC)
    if age.total_seconds() < HALF_MADE_SECONDS:
        return 0.1 if age.total_seconds() < 1 else 2.0
    log.warning("a job that was never accepted is dropped")
    return None
