"""Callers take turns: no caller waits for another's whole batch."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest
from nats.js import api

from mesh.bus import Bus
from mesh.status import reason_of
from orchestrator.jobs.store import JobStore
from orchestrator.pipeline.stages import reset_stages
from orchestrator.queue.consumers import Puller
from orchestrator.queue.dispatcher import Dispatcher
from orchestrator.queue.lanes import GROUPS, LANES, PARTS, LaneRotation, lane_of, lane_of_caller
from orchestrator.queue.work_queue import WorkQueue
from tests.orchestrator.conftest import OUTAGE_SECONDS, Start
from tests.support.broker import Broker, running_broker
from tests.support.client import Client
from tests.support.polling import until
from tests.support.processes import kill
from tests.support.scripted import SECOND, Script
from ytcaption.v1 import job_pb2

HIGH, NORMAL, LOW = job_pb2.PRIORITY_HIGH, job_pb2.PRIORITY_NORMAL, job_pb2.PRIORITY_LOW
ALICE, BOB = "alice", "bob"
ID = "01a1e222-262d-7292-9757-501b145b41af"


def url(name: object) -> str:
    return f"http://example.test/{name}"


async def batch(client: Client, caller: str, count: int, **fields: object) -> list[str]:
    return [
        (await client.create(url(f"{caller}/{number}"), caller=caller, **fields)).job_id
        for number in range(count)
    ]


@asynccontextmanager
async def runner_busy(client: Client, script: Script) -> AsyncIterator[None]:
    """Keeps the only runner busy inside this block."""
    script.seconds = 1
    script.pause_download_at = 0
    await client.create(url("first"), caller="somebody else")
    await script.until_paused()
    yield
    script.pause_download_at = None
    script.go_on.set()


async def ended(client: Client, job_ids: list[str]) -> None:
    async with asyncio.timeout(280):
        for job_id in job_ids:
            assert (await client.finished(job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


def callers(script: Script) -> list[str]:
    """Whose jobs were taken up, in order; without the one that kept the runner busy."""
    return [address.split("/")[3] for address in script.downloads[1:]]


async def test_a_single_job_does_not_wait_for_another_callers_batch(
    start: Start, script: Script
) -> None:
    async with start(concurrency=1) as client:
        async with runner_busy(client, script):
            jobs = await batch(client, ALICE, 30)
            jobs += await batch(client, BOB, 1)
        await ended(client, jobs)

    assert callers(script).index(BOB) <= 1
    assert Counter(script.downloads).most_common(1)[0][1] == 1


async def test_two_batches_take_turns(start: Start, script: Script) -> None:
    async with start(concurrency=1) as client:
        async with runner_busy(client, script):
            jobs = await batch(client, ALICE, 8)
            jobs += await batch(client, BOB, 8)
        await ended(client, jobs)

    order = callers(script)
    assert all(one != other for one, other in pairwise(order))


async def test_high_goes_before_normal_and_normal_before_low(start: Start, script: Script) -> None:
    async with start(concurrency=1) as client:
        async with runner_busy(client, script):
            jobs = await batch(client, "low", 1, priority=LOW)
            jobs += await batch(client, "normal", 1)
            jobs += await batch(client, "high", 1, priority=HIGH)
        await ended(client, jobs)

    assert callers(script) == ["high", "normal", "low"]


async def test_low_priority_is_served_while_high_priority_floods_the_queue(
    start: Start, script: Script
) -> None:
    async with start(concurrency=1) as client:
        async with runner_busy(client, script):
            jobs = await batch(client, ALICE, 20, priority=HIGH)
            jobs += await batch(client, BOB, 1, priority=LOW)
        await ended(client, jobs)

    assert callers(script).index(BOB) < 16


async def test_two_orchestrators_share_the_lanes(start: Start, script: Script) -> None:
    async with start(concurrency=1) as one, start(concurrency=1) as other:
        async with runner_busy(one, script):
            await one.create(url("second"), caller="somebody else")

            async def both_are_busy() -> bool:
                return len(script.downloads) == 2

            await until(both_are_busy)
            jobs = await batch(one, ALICE, 12)
            jobs += await batch(other, BOB, 1)
        await ended(one, jobs)

    assert callers(script)[1:].index(BOB) <= 3
    assert sorted(script.downloads) == sorted(set(script.downloads))


async def test_callers_take_turns_after_a_restart_of_the_broker(
    start: Start, script: Script, broker: Broker, tmp_path: Path
) -> None:
    async with (
        AsyncExitStack() as brokers,
        start(concurrency=1, nats_seconds=OUTAGE_SECONDS) as client,
    ):
        async with runner_busy(client, script):
            jobs = await batch(client, ALICE, 10)
            await kill(broker.pid)
            port = int(broker.url.rpartition(":")[2])
            await brokers.enter_async_context(running_broker(tmp_path / "nats", port))
            jobs.append(await _created(client, BOB))
        await ended(client, jobs)

    assert callers(script).index(BOB) <= 1


async def _created(client: Client, caller: str) -> str:
    """Once the broker is back."""
    while True:
        try:
            return (await batch(client, caller, 1))[0]
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise


async def test_a_job_has_its_caller_and_priority(client: Client) -> None:
    plain = await client.create()
    urgent = await client.create(caller=ALICE, priority=HIGH)
    sent = await client.upload(SECOND, caller=BOB, priority=LOW)

    jobs = [await client.job(job.job_id) for job in (plain, urgent, sent)]
    assert [(job.caller, job.priority) for job in jobs] == [("", NORMAL), (ALICE, HIGH), (BOB, LOW)]


@pytest.mark.parametrize("nonsense", [{"caller": "x" * 129}, {"caller": "a\nb"}, {"priority": 9}])
async def test_an_invalid_caller_or_priority_is_refused(
    client: Client, nonsense: dict[str, Any]
) -> None:
    for call in (client.create(**nonsense), client.upload(SECOND, **nonsense)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert reason_of(caught.value) == "REQUEST_INVALID"


async def test_callers_share_each_others_captions(client: Client, script: Script) -> None:
    first = await client.create(force=False, caller=ALICE)
    await client.finished(first.job_id)
    second = await client.create(force=False, caller=BOB, priority=HIGH)

    assert (await client.finished(second.job_id)).cached_from_job_id == first.job_id
    assert len(script.downloads) == 1


async def test_an_item_in_another_lane_than_its_record_says_is_dropped(
    bus: Bus, client: Client, script: Script
) -> None:
    queue = WorkQueue(bus, ack_wait_seconds=60, max_deliveries=100)
    script.pause_download_at = 0
    job = await client.create(caller=ALICE)
    await script.until_paused()
    await queue.put(job_pb2.Job(job_id=job.job_id, caller=BOB))

    async def one_is_left() -> bool:
        return await queue.depth() == 1

    await until(one_is_left)
    script.go_on.set()

    assert (await client.finished(job.job_id)).attempt == len(script.downloads) == 1


async def test_items_of_a_queue_without_lanes_are_migrated(
    start: Start, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.maintenance.reconciler.EVERY_SECONDS", 0.1)
    stream = broker_bus.names.work_stream
    there = (await broker_bus.jetstream.stream_info(stream)).config
    await broker_bus.jetstream.delete_stream(stream)
    await broker_bus.jetstream.add_stream(there.evolve(subjects=["ytc.work.*"]))
    runners = api.ConsumerConfig(durable_name="runners", filter_subject="ytc.work.*")
    await broker_bus.jetstream.add_consumer(stream, runners)
    await broker_bus.publish(f"ytc.work.{ID}", job_pb2.WorkItem(job_id=ID).SerializeToString())
    waiting = job_pb2.Job(job_id=ID, state=job_pb2.JOB_STATE_QUEUED, max_attempts=1)
    waiting.source.url = url("old")
    waiting.stages.add(stage=job_pb2.STAGE_DOWNLOAD)
    await JobStore(broker_bus).create(job_pb2.JobRecord(job=waiting))

    async with start() as client:

        async def succeeded() -> bool:
            return (await client.job(ID)).state == job_pb2.JOB_STATE_SUCCEEDED

        await until(succeeded)


async def test_an_item_that_comes_too_late_is_given_back(broker_bus: Bus) -> None:
    queue, puller = (
        WorkQueue(broker_bus, ack_wait_seconds=60, max_deliveries=100),
        Puller(broker_bus, broker_bus.names.work_stream),
    )
    job = job_pb2.Job(job_id=ID)
    await queue.put(job)
    await queue.create_lane(lane_of(job))
    async with puller.listening():
        asking = asyncio.create_task(puller.pull(lane_of(job)))
        await asyncio.sleep(0)  # the question is out, and no caller waits for the answer any more
        asking.cancel()
        await asyncio.wait([asking])

        async with Dispatcher(broker_bus, queue).listening() as other, asyncio.timeout(60):
            message = await other.next()

    assert message.metadata.num_delivered >= 2


def served(waiting: dict[str, int]) -> list[str]:
    """The lanes in the order in which so many items of each are taken up."""
    turns, order = LaneRotation(), []
    while any(waiting.values()):
        lane = next(lane for lane in turns.order() if waiting.get(lane))
        waiting[lane] -= 1
        turns.served(lane)
        order.append(lane)
    return order


def test_every_priority_has_its_share_while_all_have_work() -> None:
    flood = dict.fromkeys(("high-03", "normal-03", "low-03"), 1000)
    first = Counter(served(flood)[:160])

    assert first == {"high-03": 120, "normal-03": 30, "low-03": 10}


def test_no_lane_is_served_twice_while_another_of_its_priority_waits() -> None:
    order = served({f"normal-{group:02}": 5 for group in range(16)})

    assert all(len(set(order[turn : turn + 16])) == 16 for turn in range(0, 80, 16))


def test_a_caller_has_one_lane_of_each_priority_and_the_lanes_are_spread() -> None:
    lanes = Counter(lane_of(job_pb2.Job(caller=f"caller {n}")) for n in range(1000))

    assert lane_of(job_pb2.Job(caller=ALICE, priority=HIGH)) in LANES
    assert lane_of(job_pb2.Job(caller=ALICE)) == lane_of(job_pb2.Job(caller=ALICE, priority=NORMAL))
    assert lane_of(job_pb2.Job(caller=ALICE)) != lane_of(job_pb2.Job(caller=BOB))
    assert len(lanes) == 16
    assert max(lanes.values()) < 100


def test_an_owner_has_one_group_of_lanes_and_its_callers_share_it() -> None:
    lanes = {lane_of(job_pb2.Job(owner="ana", caller=f"caller {n}")) for n in range(200)}
    spread = {lane_of(job_pb2.Job(owner=f"owner {n}"))[:9] for n in range(1000)}

    assert len({lane.rpartition("-")[0] for lane in lanes}) == 1
    assert len(lanes) == PARTS
    assert lanes < set(LANES)
    assert len(spread) == GROUPS


def test_owners_take_turns_however_many_callers_each_names() -> None:
    one = [f"normal-03-{part}" for part in range(PARTS)]
    order = served(dict.fromkeys(one, 10) | {"normal-07-2": 10})

    assert [lane == "normal-07-2" for lane in order[:20]] == [False, True] * 10
    assert set(order[:8]) == {*one, "normal-07-2"}


async def test_an_item_queued_by_its_caller_before_owners_had_lanes_is_taken_up(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    job = job_pb2.Job(job_id=ID, owner="ana", caller=ALICE, state=job_pb2.JOB_STATE_QUEUED)
    job.source.url = url("old")
    job.max_attempts = 1
    reset_stages(job)
    before = broker_bus.names.work(lane_of_caller(job), ID)
    await broker_bus.publish(before, job_pb2.WorkItem(job_id=ID).SerializeToString())
    await JobStore(broker_bus).create(job_pb2.JobRecord(job=job))
    async with start() as client:
        assert (await client.finished(ID)).state == job_pb2.JOB_STATE_SUCCEEDED


async def test_of_two_items_in_the_lanes_of_owner_and_caller_that_of_the_owner_counts(
    broker_bus: Bus,
) -> None:
    queue = WorkQueue(broker_bus, ack_wait_seconds=60, max_deliveries=100)
    job = job_pb2.Job(job_id=ID, owner="ana", caller=ALICE)
    before = broker_bus.names.work(lane_of_caller(job), ID)
    elsewhere = broker_bus.names.work(lane_of_caller(job_pb2.Job(caller=BOB)), ID)

    alone = await queue.is_item_of(before, job)
    await queue.put(job)

    assert alone
    assert not await queue.is_item_of(before, job)
    assert not await queue.is_item_of(elsewhere, job)
    assert await queue.is_item_of(queue.subject_of(job), job)


async def test_lanes_without_items_get_no_consumer_when_too_many_items_wait_to_name_them(
    start: Start, script: Script, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.queue.work_queue.MAX_NAMED", 0)
    async with start(concurrency=1) as client:
        async with runner_busy(client, script):
            jobs = await batch(client, ALICE, 2) + await batch(client, BOB, 2)
        await ended(client, jobs)
    info = await broker_bus.jetstream.consumers_info(broker_bus.names.work_stream)

    callers_ = (ALICE, BOB, "somebody else")
    assert {one.name for one in info} == {lane_of(job_pb2.Job(caller=one)) for one in callers_}
