"""A job that waits for its twin takes nothing from others, and is not delivered again and again."""

import asyncio

import pytest

from mesh.bus import Bus
from orchestrator.lanes import lane_of
from tests.client import URL, Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.polling import until
from tests.orchestrator.scripted import Script
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

OTHER = "http://example.test/other.mp3"
ACK_WAIT = 1.0


async def deliveries(bus: Bus) -> int:
    """Of everything in the lane of callers without a name."""
    lane = lane_of(job_pb2.Job())
    info = await bus.jetstream.consumer_info(bus.names.work_stream, lane)
    return info.delivered.consumer_seq if info.delivered else 0


async def with_twins(client: Client, script: Script, bus: Bus, twins: int) -> list[str]:
    """A job that stands still before its download, and identical ones that wait for it."""
    script.pause_download_at = 0
    first = await client.create(force=False)
    await asyncio.wait_for(script.paused.wait(), 10)
    script.pause_download_at = None
    jobs = [first.job_id] + [(await client.create(force=False)).job_id for _ in range(twins)]

    async def all_delivered() -> bool:
        return await deliveries(bus) >= len(jobs)

    await until(all_delivered)
    return jobs


async def states(client: Client, job_ids: list[str]) -> list[int]:
    return [(await client.finished(job_id)).state for job_id in job_ids]


async def test_waiting_for_a_twin_keeps_no_place_and_costs_no_delivery(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    async with start(concurrency=2, ack_wait_seconds=ACK_WAIT) as client:
        jobs = await with_twins(client, script, broker_bus, 3)
        other = await client.finished((await client.create(OTHER, force=False)).job_id)
        before = await deliveries(broker_bus)
        # Longer than an item nobody speaks up for is left to its runner.
        await asyncio.sleep(3 * ACK_WAIT)
        after = await deliveries(broker_bus)
        script.go_on.set()

        assert await states(client, jobs) == [job_pb2.JOB_STATE_SUCCEEDED] * 4

    assert other.state == job_pb2.JOB_STATE_SUCCEEDED
    assert after == before
    assert script.downloads == [URL, OTHER]


async def test_when_the_twin_fails_one_that_waited_runs_for_the_rest(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    async with start(concurrency=1) as client, start(concurrency=1):
        jobs = await with_twins(client, script, broker_bus, 2)
        request = pb.CancelJobRequest(job_id=jobs[0])
        await client.pipeline.CancelJob(request)

        assert await states(client, jobs[1:]) == [job_pb2.JOB_STATE_SUCCEEDED] * 2

    assert script.downloads == [URL, URL]


async def test_a_job_that_waits_for_its_twin_can_be_cancelled(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    async with start() as client:
        first, second = await with_twins(client, script, broker_bus, 1)
        ended = (await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=second))).job
        script.go_on.set()

        assert ended.state == job_pb2.JOB_STATE_CANCELLED
        assert await states(client, [first]) == [job_pb2.JOB_STATE_SUCCEEDED]


async def test_another_orchestrator_takes_over_those_that_wait(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    async with start() as first:
        jobs = await with_twins(first, script, broker_bus, 1)
    async with start() as second:
        assert await states(second, jobs) == [job_pb2.JOB_STATE_SUCCEEDED] * 2


async def test_those_there_is_no_room_for_come_back_later(
    start: Start, script: Script, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.parking.MAX_PARKED", 1)
    monkeypatch.setattr("orchestrator.parking.FIRST_AWAY", 0.1)
    async with start() as client:
        jobs = await with_twins(client, script, broker_bus, 2)

        async def came_back() -> bool:
            return await deliveries(broker_bus) > len(jobs)

        await until(came_back)
        script.go_on.set()
        assert await states(client, jobs) == [job_pb2.JOB_STATE_SUCCEEDED] * 3

    assert script.downloads == [URL]
