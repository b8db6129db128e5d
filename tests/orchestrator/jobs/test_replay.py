"""A dead job gets another life: once, under its id, and from where it was."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from mesh.bus import Bus
from mesh.status import reason_of
from orchestrator.jobs.dead_letters import DeadLetters
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import JobStore
from orchestrator.queue.dispatcher import Dispatcher
from orchestrator.queue.work_queue import WorkQueue
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.dead_letters import (
    busy,
    dead_job,
    dies_once,
    letters,
    queue_is_empty,
    replay,
    stored,
)
from tests.support.polling import until
from tests.support.scripted import Script
from tests.support.segments import TEXT
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb

UNKNOWN_ID = "01a1e222-262d-7292-9757-501b145b41af"


async def ended_again(client: Client, job_id: str) -> job_pb2.Job:
    """The job once a later life than the first has ended."""

    async def twice() -> bool:
        kinds = [event.type async for _, event in _event_log(client, job_id)]
        return kinds.count(event_pb2.EVENT_TYPE_JOB_FINISHED) > 1

    await until(twice)
    return await client.finished(job_id)


async def _event_log(client: Client, job_id: str) -> AsyncIterator[tuple[int, event_pb2.Event]]:
    async for seen in client.watch(job_id):
        if seen.HasField("event"):
            yield seen.sequence, seen.event


async def test_a_replayed_job_goes_on_under_its_id_and_its_letter_is_gone(
    client: Client, script: Script, bus: Bus
) -> None:
    dead = await dead_job(client, script)

    script.pause_before_segment = 0
    queued = await replay(client, dead.job_id)
    script.go_on.set()
    ended = await client.finished(dead.job_id)

    assert (queued.job_id, queued.HasField("failure")) == (dead.job_id, False)
    assert not queued.HasField("end_time")
    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
    assert ended.start_time == dead.start_time
    assert await client.text(dead.job_id) == TEXT
    assert len(script.downloads) == 2
    assert await letters(client) == []
    await until(lambda: queue_is_empty(bus))


async def test_the_event_log_of_a_replayed_job_holds_both_lives(
    client: Client, script: Script
) -> None:
    dead = await dead_job(client, script)
    before = await client.events(dead.job_id)
    await replay(client, dead.job_id)
    events = await client.events(dead.job_id)
    kinds = [event_pb2.EventType.Name(event.type).removeprefix("EVENT_TYPE_") for event in events]

    assert [event.event_id for event in events[: len(before)]] == [e.event_id for e in before]
    assert kinds[len(before) : len(before) + 2] == ["JOB_ACCEPTED", "ATTEMPT_STARTED"]
    assert (kinds.count("JOB_ACCEPTED"), kinds.count("JOB_FINISHED")) == (2, 2)
    assert kinds[-1] == "JOB_FINISHED"
    assert events[-1].job_finished.job.state == job_pb2.JOB_STATE_SUCCEEDED


async def test_a_replay_resumes_behind_the_settled_segments(start: Start, script: Script) -> None:
    script.segment_failures = {3: [busy()]}
    async with start(max_attempts=1) as client:
        dead = await client.finished((await client.create()).job_id)
        await replay(client, dead.job_id)
        ended = await client.finished(dead.job_id)

        assert (dead.failure.reason, dead.segment_count) == ("SITE_ERROR", 3)
        assert (ended.state, ended.segment_count) == (job_pb2.JOB_STATE_SUCCEEDED, 6)
        assert script.starts[-1].settled_offset.ToSeconds() == 2
        assert await client.text(dead.job_id) == TEXT


async def test_a_replayed_job_gets_every_attempt_again_and_one_new_letter(
    client: Client, script: Script
) -> None:
    dead = await dead_job(client, script)
    script.failures = [busy() for _ in range(9)]
    await replay(client, dead.job_id)

    ended = await client.finished(dead.job_id)
    (letter,) = await letters(client)

    assert (ended.attempt, ended.max_attempts) == (5, 5)
    assert (letter.attempts, letter.failure.reason) == (5, "SITE_ERROR")
    assert len(script.downloads) == 5


@pytest.mark.parametrize("job_id", [UNKNOWN_ID, "nonsense", "*", ""])
async def test_a_job_without_a_letter_cannot_be_replayed(client: Client, job_id: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await replay(client, job_id)

    assert reason_of(caught.value) == "DEAD_LETTER_NOT_FOUND"


async def test_a_replay_sent_twice_runs_once(client: Client, script: Script, bus: Bus) -> None:
    dead = await dead_job(client, script)

    answers = await asyncio.gather(
        *(replay(client, dead.job_id) for _ in range(5)), return_exceptions=True
    )
    ended = await client.finished(dead.job_id)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await replay(client, dead.job_id)

    refused = [reason_of(found) for found in answers if isinstance(found, grpc.aio.AioRpcError)]
    assert set(refused) <= {"DEAD_LETTER_NOT_FOUND"}
    assert len(refused) < 5
    assert reason_of(caught.value) == "DEAD_LETTER_NOT_FOUND"
    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
    await until(lambda: queue_is_empty(bus))
    assert len(script.downloads) == 2


STEPS: list[tuple[type, str, str]] = [
    (EventLogWriter, "append", "job_accepted"),
    (JobStore, "save", ""),
    (DeadLetters, "remove", ""),
]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("step", STEPS, ids=["event_log", "record", "letter"])
async def test_a_replay_cut_short_after_its_work_item_still_runs_once(  # noqa: PLR0913
    start: Start,
    script: Script,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[type, str, str],
    times: int,
) -> None:
    async with start(prefix="OTHER") as client:
        dead = await dead_job(client, script)
        kind, name, at = step
        deaths = dies_once(monkeypatch, kind, name, at=at, times=times)

        # The answer is not looked at: a runner may be the first to die.
        await asyncio.gather(replay(client, dead.job_id), return_exceptions=True)
        ended = await ended_again(client, dead.job_id)

        assert len(deaths) == times
        assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
        assert await client.text(dead.job_id) == TEXT
        assert len(script.downloads) == 2
        events = await client.events(dead.job_id)
        accepted = [event for event in events if event.HasField("job_accepted")]
        assert len(accepted) == 2

        async def nothing_left() -> bool:
            return not (await stored(bus, "OTHER_DLQ", ">") or await stored(bus, "OTHER_WORK", ">"))

        await until(nothing_left)


async def test_a_replay_cut_short_before_its_work_item_changes_nothing(
    client: Client, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = await dead_job(client, script)
    dies_once(monkeypatch, WorkQueue, "put_replay")

    with pytest.raises(grpc.aio.AioRpcError):
        await replay(client, dead.job_id)

    assert (await client.job(dead.job_id)).state == job_pb2.JOB_STATE_FAILED
    assert len(await letters(client)) == 1
    await replay(client, dead.job_id)
    assert (await client.finished(dead.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def test_a_late_acknowledgement_of_the_first_life_cannot_swallow_a_replay(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    bus = broker_bus
    async with start(concurrency=1) as client:
        dead = await dead_job(client, script)
        await until(lambda: queue_is_empty(bus))
        script.pause_before_segment = 0
        await client.create()
        await script.until_paused()
        queue = WorkQueue(bus, ack_wait_seconds=60, max_deliveries=100)
        await queue.put(dead)
        async with Dispatcher(bus, queue).listening() as taking:
            held = await taking.next()

        await replay(client, dead.job_id)
        await held.ack_sync()
        script.go_on.set()

        ended = await asyncio.wait_for(client.finished(dead.job_id), 60)
        assert ended.state == job_pb2.JOB_STATE_SUCCEEDED


async def test_a_replayed_job_that_waits_can_be_cancelled(start: Start, script: Script) -> None:
    async with start(concurrency=1) as client:
        dead = await dead_job(client, script)
        script.pause_before_segment = 0
        await client.create()
        await script.until_paused()
        await replay(client, dead.job_id)

        request = pipeline_pb.CancelJobRequest(job_id=dead.job_id)
        ended = (await client.pipeline.CancelJob(request)).job

        assert ended.state == job_pb2.JOB_STATE_CANCELLED
        assert (await client.finished(dead.job_id)).state == job_pb2.JOB_STATE_CANCELLED
        assert await letters(client) == []


async def test_a_letter_that_outlived_its_replay_is_neither_listed_nor_in_the_way(
    client: Client, script: Script, bus: Bus
) -> None:
    dead = await dead_job(client, script)
    await replay(client, dead.job_id)
    await client.finished(dead.job_id)
    late = job_pb2.DeadLetter(job_id=dead.job_id, attempts=1)
    await bus.publish(bus.names.dead_letter(dead.job_id), late.SerializeToString())

    assert await letters(client) == []
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await replay(client, dead.job_id)
    assert reason_of(caught.value) == "DEAD_LETTER_NOT_FOUND"

    await JobStorage.on(bus).dead_letters.add_job(job_pb2.Job(job_id=dead.job_id, attempt=7))
    found = await JobStorage.on(bus).dead_letters.of(dead.job_id)
    assert found is not None
    assert found.attempts == 7
    assert await stored(bus, bus.names.dead_letter_stream, ">") == 1


async def test_a_slow_runner_cannot_write_the_dead_letter_of_a_replayed_job_again(
    client: Client, script: Script, bus: Bus
) -> None:
    dead = await dead_job(client, script)
    await replay(client, dead.job_id)
    await client.finished(dead.job_id)

    await JobStorage.on(bus).dead_letters.add_job(dead)

    assert await stored(bus, bus.names.dead_letter_stream, ">") == 0
