"""A job that waits for an identical one occupies no slot and is not delivered again."""

from collections import Counter

import pytest
from nats.aio.msg import Msg

from mesh.bus import Bus
from orchestrator.queue import consumers
from orchestrator.queue.lanes import lane_of
from orchestrator.queue.work_queue import id_of_subject
from orchestrator.worker.retry import Backoff
from tests.orchestrator.conftest import Start
from tests.support.client import URL, Client
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

OTHER = "http://example.test/other.mp3"


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many heartbeats each job's item had; they come often."""
    counted, beat, in_progress = Counter[str](), consumers._beat, Msg.in_progress

    async def counted_in_progress(self: Msg) -> None:
        await in_progress(self)
        counted[id_of_subject(self.subject)] += 1

    monkeypatch.setattr(consumers, "_beat", lambda message, _: beat(message, 0.05))
    monkeypatch.setattr(Msg, "in_progress", counted_in_progress)
    return counted


async def deliveries(bus: Bus) -> int:
    """Of everything in the lane of callers without a name."""
    lane = lane_of(job_pb2.Job())
    info = await bus.jetstream.consumer_info(bus.names.work_stream, lane)
    return info.delivered.consumer_seq if info.delivered else 0


async def with_duplicates(client: Client, script: Script, bus: Bus, duplicates: int) -> list[str]:
    """A job paused before its download, and identical ones that wait for it."""
    script.pause_download_at = 0
    first = await client.create(force=False)
    await script.until_paused()
    script.pause_download_at = None
    jobs = [first.job_id] + [(await client.create(force=False)).job_id for _ in range(duplicates)]

    async def all_delivered() -> bool:
        return await deliveries(bus) >= len(jobs)

    await until(all_delivered)
    return jobs


async def all_beat(beats: Counter[str], jobs: list[str]) -> None:
    """Waits until each job has had some more heartbeats."""
    beats.clear()
    await until(lambda: all(beats[job_id] > 3 for job_id in jobs))


async def states(client: Client, job_ids: list[str]) -> list[int]:
    return [(await client.finished(job_id)).state for job_id in job_ids]


async def test_waiting_for_an_identical_job_occupies_no_slot_and_costs_no_delivery(
    start: Start, script: Script, broker_bus: Bus, beats: Counter[str]
) -> None:
    async with start(concurrency=2) as client:
        jobs = await with_duplicates(client, script, broker_bus, 3)
        other = await client.finished((await client.create(OTHER, force=False)).job_id)
        # An item may be delivered before its record is stored, and then comes again. From here on
        # all records are there, so a job that beats is one that waits.
        await all_beat(beats, jobs)
        before = await deliveries(broker_bus)
        # Without heartbeats the items would be delivered again.
        await all_beat(beats, jobs)
        after = await deliveries(broker_bus)
        script.go_on.set()

        assert await states(client, jobs) == [job_pb2.JOB_STATE_SUCCEEDED] * 4

    assert other.state == job_pb2.JOB_STATE_SUCCEEDED
    assert after == before
    assert script.downloads == [URL, OTHER]


async def test_when_the_original_ends_without_a_result_one_duplicate_runs_for_the_rest(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    async with start(concurrency=1) as client, start(concurrency=1):
        jobs = await with_duplicates(client, script, broker_bus, 2)
        request = pb.CancelJobRequest(job_id=jobs[0])
        await client.pipeline.CancelJob(request)

        assert await states(client, jobs[1:]) == [job_pb2.JOB_STATE_SUCCEEDED] * 2

    assert script.downloads == [URL, URL]


async def test_a_job_that_waits_for_an_identical_one_can_be_cancelled(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    async with start() as client:
        first, second = await with_duplicates(client, script, broker_bus, 1)
        ended = (await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=second))).job
        script.go_on.set()

        assert ended.state == job_pb2.JOB_STATE_CANCELLED
        assert await states(client, [first]) == [job_pb2.JOB_STATE_SUCCEEDED]


async def test_another_orchestrator_takes_over_blocked_jobs(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    # An item that was pulled just before the end comes back only after the ack wait.
    async with start(ack_wait_seconds=10) as first:
        jobs = await with_duplicates(first, script, broker_bus, 1)
    async with start(ack_wait_seconds=10) as second:
        assert await states(second, jobs) == [job_pb2.JOB_STATE_SUCCEEDED] * 2


async def test_jobs_over_the_limit_of_blocked_jobs_are_delivered_again_later(
    start: Start, script: Script, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.worker.blocked.MAX_BLOCKED", 1)
    monkeypatch.setattr("orchestrator.worker.runner.REQUEUE_BACKOFF", Backoff(first=0.1, limit=0.1))
    async with start() as client:
        jobs = await with_duplicates(client, script, broker_bus, 2)

        async def came_back() -> bool:
            return await deliveries(broker_bus) > len(jobs)

        await until(came_back)
        script.go_on.set()
        assert await states(client, jobs) == [job_pb2.JOB_STATE_SUCCEEDED] * 3

    assert script.downloads == [URL]
