"""The queues of jobs and collections: at most one item each, delivered to one worker at a time."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from google.protobuf.timestamp import from_current_time
from nats.js import api
from nats.js.errors import NotFoundError

from mesh.bus import Bus, storing
from mesh.errors import LimitExceededError
from orchestrator.queue.lanes import LANES, lane_of, lane_of_caller
from ytcaption.v1 import job_pb2

REPLAY_OF = "Ytc-Replay-Of"
MAX_NAMED = 500
"""Of more items than these the broker is not asked for the names."""
MAX_PENDING = 10_000


async def put_once(
    bus: Bus, subject: str, data: bytes, headers: dict[str, str] | None = None
) -> bool:
    """Stores an item durably; False if its subject has one already."""
    try:
        await bus.publish(subject, data, headers, repeatable=True)
    except LimitExceededError as error:
        if "per subject" not in str(getattr(error.__cause__, "description", "")):
            raise
        return False
    return True


async def put_replay(  # noqa: PLR0913 # an item, and how to recognize it
    bus: Bus,
    stream: str,
    subject: str,
    data: bytes,
    headers: dict[str, str],
    is_same: Callable[[api.RawStreamMsg], bool],
) -> None:
    """Stores the item of a replay; replaces one that an ended life left behind."""
    while not await put_once(bus, subject, data, headers):
        async with storing():
            with suppress(NotFoundError):
                there = await bus.jetstream.get_last_msg(stream, subject)
                if is_same(there):
                    return  # another replica replays it too
                # Its worker may still hold it: the acknowledgement then finds nothing to remove.
                await bus.purge(stream, subject, until=there.seq or 0)


def id_of_subject(subject: str) -> str:
    """The job or collection an item belongs to."""
    return subject.rpartition(".")[2]


def lane_of_subject(subject: str) -> str:
    """The lane in which a job's item waits."""
    return subject.split(".")[-2]


def replay_of_item(headers: Mapping[str, str] | None) -> int:
    """The attempt whose death a work item was put in to undo; 0 for a job's first life."""
    return int((headers or {}).get(REPLAY_OF, 0))


class ItemQueue:
    """A work-queue stream with one item per id, which its subjects end with."""

    def __init__(self, bus: Bus, stream: str, subject_of_id: Callable[[str], str]) -> None:
        self._bus = bus
        self._stream = stream
        self._subject_of_id = subject_of_id

    async def withdraw(self, id_: str) -> None:
        """Removes the item, if there is one."""
        with suppress(NotFoundError):
            await self._bus.purge(self._stream, self._subject_of_id(id_))

    async def ids(self) -> set[str]:
        """The ids whose items wait or are being worked on."""
        items = self._bus.read(self._stream, self._subject_of_id("*"))
        return {id_of_subject(item.subject) async for item in items}


class CollectionQueue(ItemQueue):
    """One item for each collection that is not settled."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus, bus.names.collections_stream, bus.names.collection)

    async def put(self, collection_id: str) -> bool:
        """Stores the collection's item durably; False if it has one already."""
        return await put_once(self._bus, self._bus.names.collection(collection_id), b"")


class WorkQueue(ItemQueue):
    """One item for each job that has not ended, in the lane of its owner, caller and priority."""

    def __init__(self, bus: Bus, *, ack_wait_seconds: float, max_deliveries: int) -> None:
        names = bus.names
        super().__init__(bus, names.work_stream, lambda job_id: names.work("*", job_id))
        self.ack_wait_seconds = ack_wait_seconds
        self._max_deliveries = max_deliveries

    def subject_of(self, job: job_pb2.Job) -> str:
        """The subject under which the job's item is put."""
        return self._bus.names.work(lane_of(job), job.job_id)

    async def is_item_of(self, subject: str, job: job_pb2.Job) -> bool:
        """Whether an item on this subject is the job's, and not a left-over in another lane."""
        current = self.subject_of(job)
        if subject == current:
            return True
        if subject != self._bus.names.work(lane_of_caller(job), job.job_id):
            return False
        # Queued before owners had lanes: it is the job's item unless there is one in its lane.
        return await self._bus.newest(self._stream, current) is None

    async def put(self, job: job_pb2.Job) -> bool:
        """Stores the job's work item durably; False if it has one already."""
        return await put_once(self._bus, self.subject_of(job), _item(job))

    async def put_replay(self, job: job_pb2.Job, replay_of: int) -> None:
        """Stores the work item of a replay; replaces one that an ended life left behind."""
        await put_replay(
            self._bus,
            self._stream,
            self.subject_of(job),
            _item(job),
            {REPLAY_OF: str(replay_of)},
            lambda there: replay_of_item(there.headers) == replay_of,
        )

    async def depth(self) -> int:
        """Items that wait or run."""
        return (await self._bus.state(self._stream)).messages

    async def lanes_in_use(self) -> set[str] | None:
        """Lanes with items; None if there are too many items to look at."""
        async with storing():
            depth = await self.depth()
            if not depth or depth > MAX_NAMED:
                return None if depth else set()
            info = await self._bus.jetstream.stream_info(
                self._stream, subjects_filter=self._bus.names.work("*", "*")
            )
        return {lane_of_subject(subject) for subject in info.state.subjects or {}} & set(LANES)

    async def has_items(self, lane: str) -> bool:
        """Whether there are items in the lane; costs it no consumer."""
        return await self._bus.newest(self._stream, self._bus.names.work(lane, "*")) is not None

    async def create_lane(self, lane: str) -> None:
        """Creates the lane's consumer if it is missing or configured otherwise."""
        config = api.ConsumerConfig(
            durable_name=lane,
            filter_subject=self._bus.names.work(lane, "*"),
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=self.ack_wait_seconds,
            max_deliver=self._max_deliveries,
            max_ack_pending=MAX_PENDING,
        )
        async with storing():
            await self._bus.jetstream.add_consumer(self._stream, config)


def _item(job: job_pb2.Job) -> bytes:
    item = job_pb2.WorkItem(
        job_id=job.job_id, correlation_id=job.correlation_id, enqueue_time=from_current_time()
    )
    return item.SerializeToString()
