"""The queue of work: at most one item a job, held by one runner at a time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from google.protobuf.timestamp import from_current_time
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import api
from nats.js.errors import NotFoundError
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import LimitExceededError
from mesh.tasks import stop
from orchestrator.lanes import LANES, lane_of
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

REPLAY_OF = "Ytc-Replay-Of"
MAX_NAMED = 500
"""Of more items than these the broker is not asked for the names."""


def replay_of_item(headers: Mapping[str, str] | None) -> int:
    """The attempt whose death a work item was put in to undo; 0 for a job's first life."""
    return int((headers or {}).get(REPLAY_OF, 0))


def lane_of_subject(subject: str) -> str:
    """The lane in which an item waits."""
    return subject.split(".")[-2]


def is_there_already(error: LimitExceededError) -> bool:
    """Whether an item was refused because its job has one."""
    return "per subject" in str(getattr(error.__cause__, "description", ""))


async def give_back(message: Msg) -> None:
    """Lets somebody else have the item, soon."""
    try:
        await message.nak(delay=0.1)
    except Exception as error:  # noqa: BLE001 # we are leaving; the broker redelivers by itself
        log.warning("could not give work back", error=str(error))


class WorkQueue:
    """Puts work in and takes it out."""

    def __init__(self, bus: Bus, *, ack_wait_seconds: float, max_deliveries: int) -> None:
        self._bus = bus
        self._ack_wait = ack_wait_seconds
        self._max_deliveries = max_deliveries

    def subject_of(self, job: job_pb2.Job) -> str:
        """The one subject under which the job's item may be."""
        return self._bus.names.work(lane_of(job), job.job_id)

    async def put(self, job: job_pb2.Job, *, replay_of: int = 0) -> int:
        """Stores the job's work item durably and returns its sequence."""
        item = job_pb2.WorkItem(
            job_id=job.job_id,
            correlation_id=job.correlation_id,
            enqueue_time=from_current_time(),
        )
        headers = {REPLAY_OF: str(replay_of)} if replay_of else None
        return await self._bus.publish(self.subject_of(job), item.SerializeToString(), headers)

    async def put_replay(self, job: job_pb2.Job, replay_of: int) -> None:
        """Stores the work item of a replay; one that an ended life left behind makes room."""
        while True:
            try:
                await self.put(job, replay_of=replay_of)
            except LimitExceededError as error:
                if not is_there_already(error):
                    raise
                if await self._make_room(job, replay_of):
                    continue
            return

    async def _make_room(self, job: job_pb2.Job, replay_of: int) -> bool:
        """False if the item that is there is the one to be put."""
        stream, subject = self._bus.names.work_stream, self.subject_of(job)
        async with storing():
            with suppress(NotFoundError):
                there = await self._bus.jetstream.get_last_msg(stream, subject)
                if replay_of_item(there.headers) == replay_of:
                    return False
                # Its runner may still hold it: the acknowledgement then finds nothing to remove.
                await self._bus.jetstream.purge_stream(
                    stream, seq=(there.seq or 0) + 1, subject=subject
                )
        return True

    async def withdraw(self, job_id: str) -> None:
        """Takes the job's item out, if there is one."""
        async with storing():
            with suppress(NotFoundError):
                await self._bus.jetstream.purge_stream(
                    self._bus.names.work_stream, subject=self._bus.names.work("*", job_id)
                )

    async def job_ids(self) -> set[str]:
        """Jobs whose items wait or run."""
        items = self._bus.read(self._bus.names.work_stream, self._bus.names.work("*", "*"))
        return {item.subject.rpartition(".")[2] async for item in items}

    async def depth(self) -> int:
        """Items that wait or run."""
        async with storing():
            info = await self._bus.jetstream.stream_info(self._bus.names.work_stream)
        return info.state.messages

    async def lanes_in_use(self) -> set[str]:
        """Lanes in which items wait or run; all of them if there are too many items to look at."""
        async with storing():
            depth = await self.depth()
            if not depth or depth > MAX_NAMED:
                return set(LANES) if depth else set()
            info = await self._bus.jetstream.stream_info(
                self._bus.names.work_stream, subjects_filter=self._bus.names.work("*", "*")
            )
        return {lane_of_subject(subject) for subject in info.state.subjects or {}} & set(LANES)

    async def make_lane(self, lane: str) -> None:
        """Makes the lane if it is missing or set up otherwise; every replica may, at any time."""
        config = api.ConsumerConfig(
            durable_name=lane,
            filter_subject=self._bus.names.work(lane, "*"),
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=self._ack_wait,
            max_deliver=self._max_deliveries,
            max_ack_pending=10_000,
        )
        async with storing():
            await self._bus.jetstream.add_consumer(self._bus.names.work_stream, config)

    @asynccontextmanager
    async def kept_alive(self, message: Msg) -> AsyncIterator[None]:
        """Tells the broker again and again that the item is being worked on."""
        beating = asyncio.create_task(self._beat(message))
        try:
            yield
        finally:
            await stop(beating)

    async def _beat(self, message: Msg) -> None:
        while True:
            await asyncio.sleep(self._ack_wait / 3)
            try:
                await message.in_progress()
            except NatsError as error:  # the broker restarts; the next beat may get through
                log.warning("heartbeat lost", error=str(error) or type(error).__name__)
