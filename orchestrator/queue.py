"""The queue of work: at most one item a job, held by one runner at a time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from google.protobuf.timestamp import from_current_time
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import LimitExceededError
from mesh.tasks import stop
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

CONSUMER = "runners"
PULL_SECONDS = 5.0
REPLAY_OF = "Ytc-Replay-Of"


def replay_of_item(headers: Mapping[str, str] | None) -> int:
    """The attempt whose death a work item was put in to undo; 0 for a job's first life."""
    return int((headers or {}).get(REPLAY_OF, 0))


def is_there_already(error: LimitExceededError) -> bool:
    """Whether an item was refused because its job has one."""
    return "per subject" in str(getattr(error.__cause__, "description", ""))


class WorkQueue:
    """Puts work in and takes it out."""

    def __init__(self, bus: Bus, *, ack_wait_seconds: float) -> None:
        self._bus = bus
        self._ack_wait = ack_wait_seconds

    async def put(self, job: job_pb2.Job, *, replay_of: int = 0) -> int:
        """Stores the job's work item durably and returns its sequence."""
        item = job_pb2.WorkItem(
            job_id=job.job_id,
            correlation_id=job.correlation_id,
            enqueue_time=from_current_time(),
        )
        headers = {REPLAY_OF: str(replay_of)} if replay_of else None
        return await self._bus.publish(
            self._bus.names.work(job.job_id), item.SerializeToString(), headers
        )

    async def put_replay(self, job: job_pb2.Job, replay_of: int) -> None:
        """Stores the work item of a replay; one that an ended life left behind makes room."""
        while True:
            try:
                await self.put(job, replay_of=replay_of)
            except LimitExceededError as error:
                if not is_there_already(error):
                    raise
                if await self._make_room(job.job_id, replay_of):
                    continue
            return

    async def _make_room(self, job_id: str, replay_of: int) -> bool:
        """False if the item that is there is the one to be put."""
        stream, subject = self._bus.names.work_stream, self._bus.names.work(job_id)
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
                    self._bus.names.work_stream, subject=self._bus.names.work(job_id)
                )

    async def job_ids(self) -> set[str]:
        """Jobs whose items wait or run."""
        items = self._bus.read(self._bus.names.work_stream, self._bus.names.work("*"))
        return {item.subject.rpartition(".")[2] async for item in items}

    async def depth(self) -> int:
        """Items that wait or run."""
        async with storing():
            info = await self._bus.jetstream.stream_info(self._bus.names.work_stream)
        return info.state.messages

    async def open(self) -> "Puller":
        """A lane of its own to the consumer all runners share."""
        config = api.ConsumerConfig(
            durable_name=CONSUMER,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=self._ack_wait,
            max_deliver=-1,
            max_ack_pending=10_000,
        )
        async with storing():
            pulling = await self._bus.jetstream.pull_subscribe(
                self._bus.names.work("*"),
                durable=CONSUMER,
                stream=self._bus.names.work_stream,
                config=config,
            )
        return Puller(pulling)

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


class Puller:
    """Takes one item at a time."""

    def __init__(self, pulling: JetStreamContext.PullSubscription) -> None:
        self._pulling = pulling

    async def take(self) -> Msg | None:
        """The next item, or None if there is none for now."""
        try:
            # One at a time: larger fetches stall now and then.
            return (await self._pulling.fetch(1, timeout=PULL_SECONDS))[0]
        except (NatsTimeoutError, TimeoutError):
            return None
        except NatsError as error:
            log.warning("cannot pull work", error=str(error) or type(error).__name__)
            await asyncio.sleep(1)
            return None
