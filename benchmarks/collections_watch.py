"""One collection of null recordings: what it stores, what its watchers receive, what it costs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import grpc
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from benchmarks.load_figures import MB, Figure
from benchmarks.load_mesh import Orchestrator, Site, running_orchestrator, running_stages
from benchmarks.load_stages import Plan
from benchmarks.load_state import LANES, POLL_SECONDS, create_jobs, succeeded
from benchmarks.load_watch import SETTLE_SECONDS, peak_of
from mesh.stores import Names
from tests.support.broker import Broker
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import collection_service_pb2_grpc as rpc

METHOD = "/ytcaption.v1.CollectionService/WatchCollection"
CALLERS = 64
UNDER_WAY = (collection_pb2.MEMBER_STATE_PENDING, collection_pb2.MEMBER_STATE_RUNNING)


@dataclass(slots=True)
class Memory:
    """Of the orchestrator, in bytes."""

    before: int = 0
    most: int = 0
    after: int = 0

    def figures(self, whose: str) -> list[Figure]:
        """In megabytes."""
        return [
            Figure(f"{whose}: memory before", self.before / MB, "MB"),
            Figure(f"{whose}: the most on the way", self.most / MB, "MB"),
            Figure(f"{whose}: memory after", self.after / MB, "MB"),
        ]


@asynccontextmanager
async def memory_of(orchestrator: Orchestrator) -> AsyncIterator[Memory]:
    """Its memory over the block."""
    memory = Memory(before=orchestrator.rss)
    async with peak_of(orchestrator) as sizes:
        yield memory
    await asyncio.sleep(SETTLE_SECONDS)
    memory.most, memory.after = max(sizes), orchestrator.rss


@dataclass(slots=True)
class Received:
    """What one watcher was sent."""

    bytes_: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    ends: Counter[int] = field(default_factory=Counter)
    """By number: how often a member was said to have ended."""

    def note(self, data: bytes) -> None:
        """Takes one message in."""
        update = pb.WatchCollectionResponse.FromString(data)
        self.bytes_ += len(data)
        self.kinds[str(update.WhichOneof("update"))] += 1
        if update.HasField("member") and update.member.state not in UNDER_WAY:
            self.ends[update.member.number] += 1

    @property
    def messages(self) -> int:
        """All of them."""
        return self.kinds.total()

    @property
    def stored(self) -> int:
        """Those that tell of a stored change; the rest are live figures."""
        return self.messages - self.kinds["progress"]

    def is_right(self, members: int) -> bool:
        """Whether each member ended, once."""
        return self.ends == Counter(range(1, members + 1))


@dataclass(slots=True)
class Gathered:
    """What was counted over one collection."""

    members: int
    seconds: float
    changes: int
    change_bytes: int
    saves: int
    memory: Memory
    received: list[Received]
    late: Received
    """Received by a watcher that joined after the end."""


async def single_jobs(site: Site, jobs: int) -> tuple[float, Memory]:
    """Seconds from the first CreateJob to the last end, of as many jobs without a collection."""
    async with (
        running_orchestrator(site, "SINGLE", concurrency=LANES) as orchestrator,
        running_stages(site),
        memory_of(orchestrator) as memory,
    ):
        await _until_stages_answer(orchestrator)
        began = perf_counter()
        await create_jobs([orchestrator], jobs, CALLERS)
        while await succeeded(orchestrator) < jobs + 1:  # noqa: ASYNC110 # another process
            await asyncio.sleep(POLL_SECONDS)
        seconds = perf_counter() - began
    return seconds, memory


async def _until_stages_answer(orchestrator: Orchestrator) -> None:
    """One job through all: so neither run pays for the first."""
    await create_jobs([orchestrator], 1, 1)
    while not await succeeded(orchestrator):  # noqa: ASYNC110 # another process
        await asyncio.sleep(POLL_SECONDS)


async def gathered(site: Site, members: int, in_flight: int, watchers: int) -> Gathered:
    """A collection from CreateCollection until it is settled, under the eyes of so many."""
    prefix = f"GATHER{watchers}"
    async with (
        running_orchestrator(site, prefix, concurrency=LANES) as orchestrator,
        running_stages(site),
        _saves_counted(site.broker, Names(prefix)) as (client, saves),
        memory_of(orchestrator) as memory,
    ):
        await _until_stages_answer(orchestrator)
        began = perf_counter()
        collection_id = await _begin(orchestrator, members, in_flight)
        received = await _watched(orchestrator, collection_id, watchers)
        seconds = perf_counter() - began
        late = await _watched(orchestrator, collection_id, 1)
        changes, size = await _stored(client, Names(prefix), collection_id)
        counted = len(saves)
    return Gathered(members, seconds, changes, size, counted, memory, received, late[0])


async def _begin(orchestrator: Orchestrator, members: int, in_flight: int) -> str:
    stub = rpc.CollectionServiceStub(orchestrator.channels[0])
    addresses = [f"{Plan().url}&number={number}" for number in range(members)]
    request = pb.CreateCollectionRequest(
        addresses=addresses, max_in_flight=in_flight, force=True, title="Null"
    )
    return (await stub.CreateCollection(request)).collection.collection_id


async def _watched(orchestrator: Orchestrator, collection_id: str, watchers: int) -> list[Received]:
    request = pb.WatchCollectionRequest(collection_id=collection_id)
    opens: list[Any] = [
        channel.unary_stream(METHOD, pb.WatchCollectionRequest.SerializeToString)
        for channel in orchestrator.channels
    ]
    calls = [opens[number % len(opens)](request) for number in range(watchers)]
    try:
        return await asyncio.gather(*(_to_the_end(call) for call in calls))
    finally:
        for call in calls:
            call.cancel()


async def _to_the_end(call: Any) -> Received:
    messages = []
    while (data := await call.read()) is not grpc.aio.EOF:
        messages.append(data)
    received = Received()
    for data in messages:  # parsed after the measurement
        received.note(data)
    return received


@asynccontextmanager
async def _saves_counted(broker: Broker, names: Names) -> AsyncIterator[tuple[Nats, list[int]]]:
    """Sizes of all records of collections, as they are written."""
    client, saves = await broker.connect("orchestrator"), list[int]()

    async def on_save(message: Msg) -> None:
        saves.append(len(message.data))

    try:
        await client.subscribe(f"$KV.{names.jobs_bucket}.collection.*", cb=on_save)
        await client.flush()
        yield client, saves
    finally:
        await client.close()


async def _stored(client: Nats, names: Names, collection_id: str) -> tuple[int, int]:
    """Changes in the event log, and their bytes; its first event is the request."""
    subscription = await client.jetstream().subscribe(
        names.event(collection_id, "*"), stream=names.events_stream, ordered_consumer=True
    )
    sizes = []
    while True:
        message = await subscription.next_msg(timeout=10)
        sizes.append(len(message.data))
        if not message.metadata.num_pending:
            break
    await subscription.unsubscribe()
    return len(sizes) - 1, sum(sizes[1:])
