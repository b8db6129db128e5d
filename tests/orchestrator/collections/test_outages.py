"""What a dying orchestrator or broker must not spoil: no member is lost, none is counted twice."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp import from_current_time
from nats.aio.msg import Msg

from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.errors import LimitExceededError
from mesh.reasons import Reason
from orchestrator.collections.controller import CollectionController
from orchestrator.collections.fan_in import FanIn
from orchestrator.collections.projection import CollectionEventWriter, Projection, read_projection
from orchestrator.collections.worker import DURABLE
from orchestrator.jobs.store import JobStore
from orchestrator.jobs.submission import Submission
from orchestrator.queue.capacity import Capacity
from orchestrator.queue.work_queue import CollectionQueue
from tests.orchestrator.conftest import OUTAGE_SECONDS, Start, connected
from tests.support.ack_wait import set_ack_wait
from tests.support.broker import Broker, running_broker
from tests.support.client import Client
from tests.support.collections import (
    SOURCE,
    Collection,
    addresses,
    collect,
    counts,
    event_log,
    kinds,
    read,
    seconds,
    settled,
    states,
    until_states,
)
from tests.support.polling import until
from tests.support.processes import dies_at, kill
from tests.support.scripted import Script
from ytcaption.v1 import collection_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

MEMBERS = 4


async def _check(client: Client, bus: Bus, collection_id: str) -> Collection:
    """Each address is one member with one job, and each member ended once."""
    collection, members = await settled(client, collection_id)
    assert sorted(member.source_url for member in members) == addresses(MEMBERS)
    assert states(members) == ["COMPLETED"] * MEMBERS
    assert counts(collection) == {"COMPLETED": MEMBERS}
    jobs = (await client.pipeline.ListJobs(pb.ListJobsRequest(page_size=200))).jobs
    assert sorted(job.job_id for job in jobs) == sorted(member.job_id for member in members)
    appended = kinds(await event_log(bus, collection_id))
    assert (appended["COLLECTION_GATHERED"], appended["COLLECTION_SETTLED"]) == (1, 1)
    return collection


@pytest.mark.parametrize(
    ("kind", "name", "call"),
    [
        (CollectionEventWriter, "append_member", 1),
        (CollectionEventWriter, "append_member", 8),
        (CollectionEventWriter, "append_collection", 1),
        (CollectionEventWriter, "append_collection", 3),
        (CollectionEventWriter, "save", 1),
        (Submission, "reserve", 2),
        (Submission, "accept", 1),
        (JobStore, "create", 2),
        (FanIn, "follow", 2),
    ],
    ids=lambda part: getattr(part, "__name__", str(part)),
)
async def test_a_controller_that_dies_at_any_step_loses_and_duplicates_nothing(  # noqa: PLR0913
    start: Start,
    script: Script,
    broker_bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    name: str,
    call: int,
) -> None:
    script.seconds = 1
    script.listings = {SOURCE: addresses(MEMBERS)[1:]}
    deaths = dies_at(monkeypatch, kind, name, call)
    async with start(concurrency=4) as client:
        made = await collect(client, addresses(1)[0], sources=[SOURCE], max_in_flight=2)
        await _check(client, broker_bus, made.collection_id)

    assert deaths


async def test_restarts_while_a_collection_runs_lose_and_duplicate_nothing(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    moments: list[Callable[[], bool]] = [
        lambda: True,
        lambda: len(script.resolves) >= 1,
        lambda: len(script.downloads) >= 1,
        lambda: len(script.downloads) >= 2,
        lambda: len(script.downloads) >= 4,
    ]
    script.listings = {SOURCE: addresses(MEMBERS)}
    collection_id = ""
    for reached in moments:
        async with start(concurrency=1) as client:
            if not collection_id:
                made = await collect(client, sources=[SOURCE], max_in_flight=2)
                collection_id = made.collection_id
            await until(reached)
    async with start(concurrency=4) as client:
        await _check(client, broker_bus, collection_id)


async def test_replicas_that_take_a_collection_from_each_other_lose_and_duplicate_nothing(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    script.hanging = {addresses(1)[0]}
    stream = broker_bus.names.collections_stream
    async with start() as one, start():
        # Far less than what heartbeats keep: collections are delivered again and again.
        await set_ack_wait(broker_bus, stream, DURABLE, 0.3)
        made = await collect(one, *addresses(MEMBERS), max_in_flight=2)
        await until_states(one, made.collection_id, COMPLETED=MEMBERS - 1)
        await until(lambda: _delivered_often(broker_bus))
        script.go_on.set()
        await _check(one, broker_bus, made.collection_id)


async def _delivered_often(bus: Bus) -> bool:
    info = await bus.jetstream.consumer_info(bus.names.collections_stream, DURABLE)
    return info.delivered is not None and info.delivered.consumer_seq > 3


async def test_a_collection_goes_on_when_its_broker_is_killed(
    start: Start, script: Script, broker: Broker, tmp_path: Path
) -> None:
    script.hanging = {addresses(1)[0]}
    async with start(nats_seconds=OUTAGE_SECONDS) as client:
        made = await collect(client, *addresses(MEMBERS), max_in_flight=2)
        await until_states(client, made.collection_id, COMPLETED=2)
        await kill(broker.pid)
        async with running_broker(tmp_path / "nats", int(broker.url.rpartition(":")[2])) as again:
            script.go_on.set()
            async with connected(again) as bus:
                await _check(client, bus, made.collection_id)


async def test_changes_without_a_live_message_are_found_in_the_records(
    start: Start, script: Script, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deaf(self: FanIn, number: int, message: Msg) -> None:
        pass

    monkeypatch.setattr(FanIn, "_on_live", deaf)
    async with start(concurrency=4) as client:
        made = await collect(client, *addresses(MEMBERS))
        await _check(client, broker_bus, made.collection_id)


async def test_members_wait_while_storage_is_full(
    start: Start, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.collections.fan_out.AGAIN_SECONDS", 0.05)
    check, asked = Capacity.check, [0]

    async def full(self: Capacity) -> None:
        asked[0] += 1
        if asked[0] in (3, 4):  # the first is that of the collection
            raise LimitExceededError("full", reason=Reason.STORAGE_FULL)
        await check(self)

    monkeypatch.setattr(Capacity, "check", full)
    async with start(concurrency=4) as client:
        made = await collect(client, *addresses(MEMBERS))
        await _check(client, broker_bus, made.collection_id)

    assert asked[0] > MEMBERS + 2


async def test_a_deadline_that_passed_while_no_orchestrator_ran_counts(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.hanging = {addresses(1)[0]}
    async with start() as client:
        made = await collect(client, *addresses(3), max_in_flight=1, timeout=seconds(3600))
        await script.until_paused()
    now = from_current_time()

    async def read_later(*which: Any, **named: Any) -> Projection:
        """As if the hour were over."""
        projection = await read_projection(*which, **named)
        projection.collection.deadline.CopyFrom(now)
        return projection

    monkeypatch.setattr("orchestrator.collections.worker.read_projection", read_later)
    script.go_on.set()
    async with start() as client:
        collection, members = await settled(client, made.collection_id)

    assert states(members) == ["COMPLETED", "TIMED_OUT", "TIMED_OUT"]
    assert (members[0].late, collection.late_count) == (True, 1)
    assert script.downloads[-1] == addresses(1)[0], "the others are never begun"


async def test_a_job_that_was_only_intended_at_the_deadline_is_never_created(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(self: Submission, *_: Any) -> None:
        died.set()
        await asyncio.Event().wait()

    died = asyncio.Event()
    with monkeypatch.context() as patched:
        patched.setattr(Submission, "accept", killed)
        async with start() as client:
            made = await collect(client, *addresses(1), timeout=seconds(60))
            await asyncio.wait_for(died.wait(), 60)
    monkeypatch.setattr(CollectionController, "_seconds_left", lambda _: -1.0)
    async with start() as client:
        collection, members = await settled(client, made.collection_id)
        jobs = (await client.pipeline.ListJobs(pb.ListJobsRequest())).jobs

    assert (states(members), members[0].job_id, list(jobs)) == (["TIMED_OUT"], "", [])
    assert collection.state == collection_pb2.COLLECTION_STATE_PARTIAL
    assert not script.downloads


async def test_an_item_without_a_collection_is_dropped(
    start: Start, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.queue.consumers.RECORD_SECONDS", 0.2)
    queue = CollectionQueue(broker_bus)
    async with start():
        await queue.put(new_id())
        await until(lambda: _is_empty(queue))


async def _is_empty(queue: CollectionQueue) -> bool:
    return not await queue.ids()


async def test_the_reconciler_enqueues_a_collection_that_has_no_item(
    start: Start, script: Script, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.hanging = {addresses(1)[0]}
    async with start() as client:
        made = await collect(client, *addresses(MEMBERS))
        await until_states(client, made.collection_id, COMPLETED=1)
    await CollectionQueue(broker_bus).withdraw(made.collection_id)
    script.go_on.set()
    monkeypatch.setattr("orchestrator.maintenance.reconciler.EVERY_SECONDS", 0.1)
    async with start(concurrency=4) as client:
        await _check(client, broker_bus, made.collection_id)


async def test_a_request_that_died_half_way_can_be_sent_again(
    start: Start, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = dies_at(monkeypatch, CollectionQueue, "put", 1)
    async with start(concurrency=4) as client:
        with pytest.raises(Exception, match="internal"):
            await collect(client, *addresses(MEMBERS), request_id="mine")
        made = await collect(client, *addresses(MEMBERS), request_id="mine")
        same = await collect(client, *addresses(MEMBERS), request_id="mine")
        await _check(client, broker_bus, made.collection_id)
        _, members = await read(client, made.collection_id)
        job = await client.job(members[0].job_id)

    assert deaths
    assert same.collection_id == made.collection_id
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED
