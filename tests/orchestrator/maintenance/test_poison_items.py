"""A poison item ends as one dead letter, and other jobs run."""

import asyncio
from typing import Any

import grpc
import pytest

from mesh.bus import Bus
from orchestrator.jobs.storage import JobStorage
from orchestrator.maintenance.poison_items import PoisonItems
from orchestrator.worker.runner import Runner
from tests.orchestrator.conftest import Start
from tests.support.client import Client, refusal
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

ID = "01a1e222-262d-7292-9757-501b145b41af"
NONSENSE = b"\xff\xff\xff"
FEW: dict[str, Any] = {"max_deliveries": 3}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.maintenance.poison_items.INTERVAL_SECONDS", 0.1)


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


async def test_an_unreadable_record_ends_as_one_dead_letter_while_other_jobs_run(
    start: Start, broker_bus: Bus
) -> None:
    async with start(concurrency=1, **FEW) as client, start(concurrency=1, **FEW):
        await put_unreadable(broker_bus)
        other = await client.finished((await client.create()).job_id)
        await until(lambda: settled(broker_bus))

        assert other.state == job_pb2.JOB_STATE_SUCCEEDED
        assert await letters(client) == [(ID, "DELIVERIES_EXHAUSTED", 0)]
        assert await refusal(client.job(ID)) == "RECORD_UNREADABLE"
        listed = (await client.pipeline.ListJobs(pb.ListJobsRequest())).jobs
        assert [job.job_id for job in listed] == [other.job_id]


async def test_a_job_with_an_unreadable_record_can_be_deleted(
    start: Start, broker_bus: Bus
) -> None:
    async with start(**FEW) as client:
        await put_unreadable(broker_bus)
        await until(lambda: _has_letter(client))
        await client.pipeline.DeleteJob(pb.DeleteJobRequest(job_id=ID))

        assert await letters(client) == []
        assert await refusal(client.job(ID)) == "JOB_NOT_FOUND"


async def _has_letter(client: Client) -> bool:
    return bool(await letters(client))


async def test_watchers_see_the_end_of_a_poison_job_and_it_can_be_replayed(
    start: Start, script: Script, broker_bus: Bus, fault: asyncio.Event
) -> None:
    async with start(**FEW) as client:
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


async def test_a_poison_job_with_a_cancel_request_leaves_no_dead_letter(
    start: Start, broker_bus: Bus, fault: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.jobs.control.JobControl._end_queued", _dies)
    async with start(**FEW) as client:
        job = await client.create()
        with pytest.raises(grpc.aio.AioRpcError):
            await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=job.job_id))

        assert (await client.finished(job.job_id)).state == job_pb2.JOB_STATE_CANCELLED
        assert await letters(client) == []


async def _dies(*_: Any) -> None:
    raise RuntimeError("killed")


async def test_a_poison_job_with_an_unreadable_event_log_ends_all_the_same(
    start: Start, broker_bus: Bus, fault: asyncio.Event
) -> None:
    async with start(**FEW) as client:
        job = await client.create()
        await broker_bus.publish(broker_bus.names.event(job.job_id, "nonsense"), NONSENSE)
        await until(lambda: settled(broker_bus))

        assert (await client.job(job.job_id)).state == job_pb2.JOB_STATE_FAILED
        assert await letters(client) == [(job.job_id, "DELIVERIES_EXHAUSTED", 1)]


async def test_replicas_end_each_poison_job_once(
    start: Start, broker_bus: Bus, fault: asyncio.Event
) -> None:
    async with start(**FEW) as client, start(**FEW), start(**FEW):
        jobs = [(await client.create()).job_id for _ in range(4)]
        await asyncio.gather(*(client.finished(job_id) for job_id in jobs))
        await until(lambda: settled(broker_bus))

        assert sorted(job_id for job_id, _, _ in await letters(client)) == sorted(jobs)


async def test_a_repeated_advisory_changes_nothing(client: Client, bus: Bus) -> None:
    said = bus.names.exhausted().replace("*", "normal-00")
    await bus.publish(said, b'{"stream_seq": 4711}')
    await bus.publish(said, b'{"stream_seq": 4711}')
    first, second = PoisonItems(JobStorage.on(bus)), PoisonItems(JobStorage.on(bus))

    await asyncio.gather(first.check(), second.check())

    assert await settled(bus)
    assert await letters(client) == []
