"""What no runner can deal with ends as one dead letter, and stops nobody else."""

import asyncio
from typing import Any

import grpc
import pytest

from mesh.bus import Bus
from orchestrator.backstop import Backstop
from orchestrator.runner import Runner
from tests.client import Client, refusal
from tests.orchestrator.conftest import Start
from tests.orchestrator.polling import until
from tests.orchestrator.scripted import Script
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

ID = "01a1e222-262d-7292-9757-501b145b41af"
NONSENSE = b"\xff\xff\xff"
IMPATIENT: dict[str, Any] = {"max_deliveries": 3, "ack_wait_seconds": 0.2}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.backstop.EVERY_SECONDS", 0.1)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """While it is set, runners fail before they count an attempt."""
    work, present = Runner._work, asyncio.Event()

    async def failing_work(*given: Any) -> Any:
        if present.is_set():
            raise RuntimeError("a fault of ours")
        return await work(*given)

    monkeypatch.setattr(Runner, "_work", failing_work)
    present.set()
    return present


async def letters(client: Client) -> list[tuple[str, str, int]]:
    listed = await client.admin.ListDeadLetters(admin_pb.ListDeadLettersRequest())
    return [
        (letter.job_id, letter.failure.reason, letter.attempts) for letter in listed.dead_letters
    ]


async def settled(bus: Bus) -> bool:
    """Whether no item is left, nor anything the broker said of one."""
    streams = (bus.names.work_stream, bus.names.exhausted_stream)
    infos = [await bus.jetstream.stream_info(stream) for stream in streams]
    return not any(info.state.messages for info in infos)


async def put_unreadable(bus: Bus) -> None:
    """A queued job whose record is none."""
    await bus.jobs.put(ID, NONSENSE)
    item = job_pb2.WorkItem(job_id=ID, correlation_id="thread-7")
    item.enqueue_time.GetCurrentTime()
    await bus.publish(bus.names.work("normal-00", ID), item.SerializeToString())


async def test_a_record_nobody_can_read_ends_as_one_letter_while_others_go_on(
    start: Start, broker_bus: Bus
) -> None:
    async with start(concurrency=1, **IMPATIENT) as client, start(concurrency=1, **IMPATIENT):
        await put_unreadable(broker_bus)
        other = await client.finished((await client.create()).job_id)
        await until(lambda: settled(broker_bus))

        assert other.state == job_pb2.JOB_STATE_SUCCEEDED
        assert await letters(client) == [(ID, "DELIVERIES_EXHAUSTED", 0)]
        assert await refusal(client.job(ID)) == "RECORD_UNREADABLE"
        listed = (await client.pipeline.ListJobs(pb.ListJobsRequest())).jobs
        assert [job.job_id for job in listed] == [other.job_id]


async def test_a_job_whose_record_nobody_can_read_can_be_deleted(
    start: Start, broker_bus: Bus
) -> None:
    async with start(**IMPATIENT) as client:
        await put_unreadable(broker_bus)
        await until(lambda: _has_letter(client))
        await client.pipeline.DeleteJob(pb.DeleteJobRequest(job_id=ID))

        assert await letters(client) == []
        assert await refusal(client.job(ID)) == "JOB_NOT_FOUND"


async def _has_letter(client: Client) -> bool:
    return bool(await letters(client))


async def test_a_job_given_up_is_told_to_watchers_and_can_be_replayed(
    start: Start, script: Script, broker_bus: Bus, fault: asyncio.Event
) -> None:
    async with start(**IMPATIENT) as client:
        job = await client.create()
        ended = await client.finished(job.job_id)
        await until(lambda: settled(broker_bus))

        assert ended.state == job_pb2.JOB_STATE_FAILED
        assert (ended.failure.reason, script.downloads) == ("DELIVERIES_EXHAUSTED", [])
        assert await letters(client) == [(job.job_id, "DELIVERIES_EXHAUSTED", 1)]

        fault.clear()
        await client.admin.ReplayDeadLetter(admin_pb.ReplayDeadLetterRequest(job_id=job.job_id))
        again = await client.finished(job.job_id)
        assert (again.state, again.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
        assert await letters(client) == []


async def test_a_job_that_was_to_be_cancelled_anyway_leaves_no_letter(
    start: Start, broker_bus: Bus, fault: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.control.Control._end_queued", _dies)
    async with start(**IMPATIENT) as client:
        job = await client.create()
        with pytest.raises(grpc.aio.AioRpcError):
            await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=job.job_id))

        assert (await client.finished(job.job_id)).state == job_pb2.JOB_STATE_CANCELLED
        assert await letters(client) == []


async def _dies(*_: Any) -> None:
    raise RuntimeError("killed")


async def test_a_story_nobody_can_read_does_not_keep_its_job_for_ever(
    start: Start, broker_bus: Bus, fault: asyncio.Event
) -> None:
    async with start(**IMPATIENT) as client:
        job = await client.create()
        await broker_bus.publish(broker_bus.names.event(job.job_id, "nonsense"), NONSENSE)
        await until(lambda: settled(broker_bus))

        assert (await client.job(job.job_id)).state == job_pb2.JOB_STATE_FAILED
        assert await letters(client) == [(job.job_id, "DELIVERIES_EXHAUSTED", 1)]


async def test_what_another_replica_has_done_is_left_alone(
    start: Start, broker_bus: Bus, fault: asyncio.Event
) -> None:
    async with start(**IMPATIENT) as client, start(**IMPATIENT), start(**IMPATIENT):
        jobs = [(await client.create()).job_id for _ in range(4)]
        await asyncio.gather(*(client.finished(job_id) for job_id in jobs))
        await until(lambda: settled(broker_bus))

        assert sorted(job_id for job_id, _, _ in await letters(client)) == sorted(jobs)


async def test_the_broker_may_say_twice_what_was_acted_on(client: Client, bus: Bus) -> None:
    said = bus.names.exhausted().replace("*", "normal-00")
    await bus.publish(said, b'{"stream_seq": 4711}')
    await bus.publish(said, b'{"stream_seq": 4711}')
    first, second = Backstop(bus), Backstop(bus)

    await asyncio.gather(first.look(), second.look())

    assert await settled(bus)
    assert await letters(client) == []
