"""Lists that are watched: a page at once, another whenever it has changed, none in between."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import grpc
import pytest

from mesh.bus import Bus, outlast
from mesh.server import running_server
from mesh.tasks import stop
from orchestrator.jobs.index import JobIndex, JobPage, ListQuery
from orchestrator.jobs.store import JobStore
from orchestrator.pipeline.stages import StateId
from orchestrator.settings import Settings
from orchestrator.watch.live_pages import LivePages
from orchestrator.wiring import assembled
from tests.support import collections as gatherings
from tests.support.broker import Broker, running_broker
from tests.support.client import Client
from tests.support.polling import until
from tests.support.processes import kill
from tests.support.scripted import Script
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

UUIDS = [f"00000000-0000-7000-8000-{number:012}" for number in range(6)]
QUEUED, FAILED = job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_FAILED
FIRST = ListQuery(10)


class Mesh:
    """A bucket, an index of it, and the pages that are watched."""

    def __init__(self, bus: Bus) -> None:
        self.jobs, self.index = JobStore(bus), JobIndex(bus)
        self.pages = LivePages(self.index)
        self.looks = 0

    def look(self, wanted: ListQuery) -> JobPage:
        self.looks += 1
        return self.index.look(wanted)

    def watch(self, wanted: ListQuery = FIRST) -> AsyncGenerator[JobPage, None]:
        return self.pages.watch(self.look, wanted)

    async def create(self, job_id: str, state: StateId = QUEUED) -> None:
        job = job_pb2.Job(job_id=job_id, state=state)
        record = job_pb2.JobRecord(job=job)
        await outlast(lambda: self.jobs.create(record))

    async def fail(self, job_id: str) -> None:
        def change(record: job_pb2.JobRecord) -> bool:
            record.job.state = FAILED
            return True

        await self.jobs.change(job_id, change)


@asynccontextmanager
async def watched(bus: Bus) -> AsyncIterator[Mesh]:
    made = Mesh(bus)
    running = asyncio.create_task(made.pages.run())
    yield made
    await stop(running)


@pytest.fixture
async def mesh(broker_bus: Bus) -> AsyncIterator[Mesh]:
    async with watched(broker_bus) as made:
        yield made


@asynccontextmanager
async def following(watch: AsyncGenerator[JobPage, None]) -> AsyncIterator["Next"]:
    async with aclosing(watch):
        yield Next(watch)


class Next:
    """One who watches."""

    def __init__(self, watch: AsyncGenerator[JobPage, None]) -> None:
        self._watch = watch

    async def page(self) -> JobPage:
        return await asyncio.wait_for(anext(self._watch), 60)

    async def ids(self) -> list[str]:
        return [job.job_id for job in (await self.page()).items]


async def test_the_page_comes_at_once_and_again_with_each_change(mesh: Mesh) -> None:
    one, two = UUIDS[:2]
    await mesh.create(one)
    async with following(mesh.watch()) as watcher:
        assert await watcher.ids() == [one]
        await mesh.create(two)
        assert await watcher.ids() == [two, one]
        await mesh.fail(one)
        assert [job.state for job in (await watcher.page()).items] == [QUEUED, FAILED]
        await mesh.jobs.remove(two)
        assert await watcher.ids() == [one]


async def test_a_change_outside_the_page_pushes_no_page(mesh: Mesh) -> None:
    one, two, three, four = UUIDS[:4]
    await mesh.create(one, FAILED)
    async with (
        following(mesh.watch()) as everything,
        following(mesh.watch(ListQuery(10, states=frozenset([FAILED])))) as failed,
        following(mesh.watch(ListQuery(10, query=four))) as searched,
    ):
        assert [await watcher.ids() for watcher in (failed, searched)] == [[one], []]
        await everything.page()
        for other in (two, three):
            await mesh.create(other)
            await everything.page()  # so that each was looked at by itself
        await mesh.create(four, FAILED)
        assert await failed.ids() == [four, one]
        assert await searched.ids() == [four]


async def test_a_later_page_is_watched_like_the_first(mesh: Mesh) -> None:
    for job_id in UUIDS[:3]:
        await mesh.create(job_id)
    async with following(mesh.watch(ListQuery(1, token=UUIDS[2]))) as watcher:
        first = await watcher.page()
        assert ([job.job_id for job in first.items], first.total) == ([UUIDS[1]], 3)
        assert first.next_token == UUIDS[1]
        await mesh.create(UUIDS[3])
        second = await watcher.page()
        assert ([job.job_id for job in second.items], second.total) == ([UUIDS[1]], 4)


async def test_watchers_of_one_query_share_one_lookup_for_each_change(mesh: Mesh) -> None:
    await mesh.create(UUIDS[0])
    watches = [mesh.watch() for _ in range(50)]

    async def next_of_all() -> list[JobPage]:
        async with asyncio.timeout(60):
            return [await anext(watch) for watch in watches]

    firsts = await next_of_all()
    await mesh.create(UUIDS[1])
    seconds = await next_of_all()

    assert len({id(page) for page in firsts}) == len({id(page) for page in seconds}) == 1
    assert mesh.looks == 2
    for watch in watches:
        await watch.aclose()


async def test_a_slow_watcher_gets_only_the_newest_page(mesh: Mesh) -> None:
    async with following(mesh.watch()) as slow, following(mesh.watch()) as quick:
        assert await slow.ids() == await quick.ids() == []
        for number, job_id in enumerate(UUIDS[:4], start=1):
            await mesh.create(job_id)
            assert len(await quick.ids()) == number
        assert len(await slow.ids()) == 4
        await mesh.create(UUIDS[4])
        assert len(await slow.ids()) == 5


async def test_the_bucket_is_subscribed_only_while_a_page_is_watched(
    mesh: Mesh, broker_bus: Bus
) -> None:
    before = len(broker_bus.client._subs)

    async def listening() -> bool:
        return len(broker_bus.client._subs) > before

    async def silent() -> bool:
        return len(broker_bus.client._subs) == before

    async with following(mesh.watch()) as watcher:
        await watcher.page()
        await mesh.create(UUIDS[0])
        await watcher.page()
        await until(listening)
    await until(silent)
    async with following(mesh.watch()) as again:
        assert await again.ids() == [UUIDS[0]]
        await mesh.create(UUIDS[1])
        assert await again.ids() == [UUIDS[1], UUIDS[0]]


async def test_a_lost_hint_costs_no_page(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def deaf(*_: object) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(mesh.index, "hints", deaf)
    async with following(mesh.watch()) as watcher:
        await watcher.page()
        await mesh.create(UUIDS[0])
        assert await watcher.ids() == [UUIDS[0]]


async def test_a_watch_goes_on_when_the_broker_is_back(
    outage_bus: Bus, broker: Broker, tmp_path: Path
) -> None:
    async with watched(outage_bus) as mesh, following(mesh.watch()) as watcher:
        await watcher.page()
        await kill(broker.pid)
        async with running_broker(tmp_path / "nats", int(broker.url.rpartition(":")[2])):
            await mesh.create(UUIDS[0])
            assert await watcher.ids() == [UUIDS[0]]


async def test_over_the_wire_a_running_job_moves_on_its_list(
    client: Client, script: Script
) -> None:
    script.pause_before_segment = 3
    call = client.pipeline.WatchJobs(pb.WatchJobsRequest())
    pages = aiter(call)
    try:
        async with asyncio.timeout(60):
            assert await anext(pages) == pb.WatchJobsResponse()
            job_id = (await client.create()).job_id
            page = await anext(pages)
            while not 0 < page.jobs[0].progress < 1:  # frozen, it would stay 0 until it ends
                page = await anext(pages)
            assert (page.jobs[0].job_id, page.total_size) == (job_id, 1)
            script.go_on.set()
            while page.jobs[0].state != job_pb2.JOB_STATE_SUCCEEDED:
                page = await anext(pages)
            await client.delete(job_id)
            while page.jobs:
                page = await anext(pages)
    finally:
        call.cancel()


async def test_over_the_wire_the_counts_of_a_collection_move_on_their_list(client: Client) -> None:
    call = client.collections.WatchCollections(collection_pb.WatchCollectionsRequest())
    pages = aiter(call)
    try:
        async with asyncio.timeout(60):
            page = await anext(pages)
            assert not page.collections
            made = await gatherings.collect(client, *gatherings.addresses(2))
            while not (page.collections and page.collections[0].settled):
                page = await anext(pages)
    finally:
        call.cancel()

    (collection,) = page.collections
    assert collection.collection_id == made.collection_id
    assert gatherings.counts(collection) == {"COMPLETED": 2}


async def test_an_invalid_list_query_is_refused_for_live_lists_too(client: Client) -> None:
    for call in (
        client.pipeline.WatchJobs(pb.WatchJobsRequest(page_size=-1)),
        client.pipeline.WatchJobs(pb.WatchJobsRequest(query="x" * 201)),
        client.collections.WatchCollections(collection_pb.WatchCollectionsRequest(page_size=-1)),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_server_that_stops_ends_live_lists_and_does_not_wait_for_them(
    broker: Broker, tmp_path: Path
) -> None:
    settings = Settings(
        nats_url=broker.url,
        nats_credentials=broker.credentials,
        nats_seconds=60,
        work_dir=tmp_path / "work",
        storage_bytes=2**28,
    )
    async with asyncio.timeout(60), assembled(settings) as (services, _):
        async with running_server(services, grace_seconds=600) as server:
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
            call = Client(channel).pipeline.WatchJobs(pb.WatchJobsRequest())
            assert await call.read() == pb.WatchJobsResponse()
        assert await call.read() is grpc.aio.EOF
        await channel.close()
