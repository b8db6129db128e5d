"""What happens to jobs when runners and brokers die."""

import asyncio
from functools import partialmethod
from pathlib import Path

import grpc
import pytest
from nats.js import JetStreamContext

from mesh.addresses import free_ports
from mesh.bus import Bus
from mesh.errors import UnavailableError
from mesh.server import running_server
from mesh.status import reason_of
from tests.orchestrator.conftest import OUTAGE_SECONDS, Start
from tests.support.broker import Broker, running_broker
from tests.support.client import Client
from tests.support.processes import kill
from tests.support.scripted import Script
from tests.support.scripted_stages import scripted_services
from tests.support.segments import TEXT
from ytcaption.v1 import job_pb2


@pytest.mark.parametrize("settled", range(6))
async def test_another_runner_goes_on_where_the_first_one_stopped(
    start: Start, script: Script, settled: int
) -> None:
    script.pause_before_segment = settled
    async with start() as first:
        job = await first.create()
        await script.until_paused()
        if settled:
            await _seen(first, job.job_id, settled - 1)
    script.pause_before_segment = None
    async with start() as second:
        ended = await second.finished(job.job_id)
        assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
        assert await second.text(job.job_id) == TEXT
        events = await second.events(job.job_id)

    indexes = [e.segment_settled.segment.index for e in events if e.HasField("segment_settled")]
    assert indexes == list(range(6))
    assert script.starts[-1].settled_offset.ToSeconds() == settled - settled % 2


async def _seen(client: Client, job_id: str, index: int) -> int:
    async for seen in client.watch(job_id):
        segment = seen.event.segment_settled
        if seen.event.HasField("segment_settled") and segment.segment.index == index:
            return seen.sequence
    raise AssertionError("the job ended too soon")


async def test_a_watcher_that_comes_back_misses_and_repeats_nothing(
    client: Client, script: Script
) -> None:
    script.pause_before_segment = 3
    job = await client.create()
    sequence = await _seen(client, job.job_id, 1)
    script.go_on.set()
    later = [seen.sequence async for seen in client.watch(job.job_id, sequence) if seen.sequence]
    whole = [seen.sequence async for seen in client.watch(job.job_id) if seen.sequence]

    assert whole == sorted(set(whole))
    assert later == [found for found in whole if found > sequence]


async def test_either_orchestrator_serves_any_watch(start: Start, script: Script) -> None:
    script.pause_before_segment = 2
    async with start(concurrency=1) as one, start(concurrency=1) as other:
        job = await one.create()
        watching = [asyncio.create_task(side.events(job.job_id)) for side in (one, other)]
        await script.until_paused()
        script.go_on.set()
        first, second = await asyncio.gather(*watching)

    assert [event.event_id for event in first] == [event.event_id for event in second]


async def test_a_broker_killed_in_mid_job_costs_nothing(
    script: Script, tmp_path: Path, start: Start, broker: Broker
) -> None:
    script.pause_before_segment = 3
    async with start(nats_seconds=OUTAGE_SECONDS) as client:
        job = await client.create()
        watching = asyncio.create_task(client.events(job.job_id))
        await script.until_paused()
        await kill(broker.pid)
        port = int(broker.url.rpartition(":")[2])
        async with running_broker(tmp_path / "nats", port):
            script.go_on.set()
            events = await asyncio.wait_for(watching, 60)
            text = await client.text(job.job_id)
            again = await client.events(job.job_id)

    assert events[-1].job_finished.job.state == job_pb2.JOB_STATE_SUCCEEDED
    assert text == TEXT
    assert [event.event_id for event in events] == [event.event_id for event in again]


async def test_a_job_that_cannot_be_stored_is_refused_as_unavailable(
    start: Start, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = JetStreamContext.publish
    async with start() as client:
        await kill(broker.pid)
        monkeypatch.setattr(JetStreamContext, "publish", partialmethod(publish, timeout=0.1))
        monkeypatch.setattr("orchestrator.queue.capacity.TIMEOUT_SECONDS", 0.1)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.create()

    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert reason_of(caught.value) == "STORAGE_UNAVAILABLE"


async def test_a_work_item_without_a_job_never_runs(
    client: Client, script: Script, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.queue.consumers.RECORD_SECONDS", 0)
    orphan = job_pb2.WorkItem(job_id="01a1e222-262d-7292-9757-501b145b41af")
    orphan.enqueue_time.GetCurrentTime()
    subject = bus.names.work("normal-00", orphan.job_id)
    await bus.publish(subject, orphan.SerializeToString())

    async with asyncio.timeout(60):
        while [item async for item in bus.read(bus.names.work_stream, subject)]:
            pass
    assert script.downloads == []


async def test_no_broker_at_all_is_a_clear_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.bus.CONNECT_SECONDS", 0.5)
    with pytest.raises(UnavailableError, match="no NATS server answers"):
        async with Bus.connected(f"nats://127.0.0.1:{free_ports(1)[0]}"):
            pass


async def test_a_job_waits_for_its_stages_instead_of_wasting_attempts(
    start: Start, script: Script
) -> None:
    port = free_ports(1)[0]
    async with start(transcriber=f"127.0.0.1:{port}") as client:
        job = await client.create()
        async with running_server(scripted_services(script), f"127.0.0.1:{port}", grace_seconds=0):
            ended = await client.finished(job.job_id)

    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)


async def test_a_stage_that_dies_is_named_and_tried_again(start: Start, script: Script) -> None:
    script.pause_before_segment = 1
    port = free_ports(1)[0]
    listen = f"127.0.0.1:{port}"
    async with start(transcriber=listen) as client:
        async with running_server(scripted_services(script), listen, grace_seconds=0):
            job = await client.create()
            await script.until_paused()
        script.pause_before_segment = None
        async with running_server(scripted_services(script), listen, grace_seconds=0):
            events = await client.events(job.job_id)

    failed = [event.attempt_failed.failure for event in events if event.HasField("attempt_failed")]
    assert [(failure.reason, failure.stage) for failure in failed] == [
        ("STAGE_UNAVAILABLE", job_pb2.STAGE_TRANSCRIPTION)
    ]
    assert events[-1].job_finished.job.state == job_pb2.JOB_STATE_SUCCEEDED
