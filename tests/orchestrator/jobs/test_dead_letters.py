"""Dead letters: exactly one a dead job; listed and purged."""

from typing import Any

import grpc
import pytest

from mesh.bus import Bus
from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.jobs.dead_letters import DeadLetters
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.resume_state import ResumeState
from orchestrator.worker.runner import Runner
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.dead_letters import (
    busy,
    dead_job,
    dies_once,
    letters,
    purge,
    queue_is_empty,
    replay,
)
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2


async def test_a_dead_letter_has_the_work_item_and_the_failure(
    client: Client, script: Script
) -> None:
    script.failures = [busy() for _ in range(9)]
    job = await client.finished((await client.create(correlation_id="thread-9")).job_id)

    (letter,) = await letters(client)

    assert letter.sequence > 0
    assert (letter.job_id, letter.correlation_id) == (job.job_id, "thread-9")
    assert letter.work_item.job_id == job.job_id
    assert (letter.attempts, len(script.downloads)) == (4, 4)
    assert (letter.failure.reason, letter.failure.attempt) == ("SITE_ERROR", 4)
    assert letter.failure.message == job.failure.message != ""
    assert letter.first_attempt_time == job.start_time
    assert letter.dead_time == job.end_time


async def test_a_permanent_reason_makes_one_attempt_and_one_letter(
    client: Client, script: Script
) -> None:
    job = await dead_job(client, script)

    assert [(found.job_id, found.attempts) for found in await letters(client)] == [(job.job_id, 1)]
    assert len(script.downloads) == 1


async def test_a_runner_that_dies_between_record_and_letter_leaves_one_letter(
    client: Client, script: Script, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_once(monkeypatch, DeadLetters, "add_job")

    job = await dead_job(client, script)

    await until(lambda: queue_is_empty(bus))
    assert [found.job_id for found in await letters(client)] == [job.job_id]
    assert len(script.downloads) == 1


async def test_a_runner_that_dies_between_letter_and_event_log_leaves_one_letter(
    client: Client, script: Script, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_once(monkeypatch, EventLogWriter, "append", at="job_finished")

    job = await dead_job(client, script)

    await until(lambda: queue_is_empty(bus))
    assert [found.job_id for found in await letters(client)] == [job.job_id]
    assert len(script.downloads) == 1


async def test_a_job_that_kills_every_runner_ends_as_a_crash_loop(
    start: Start, script: Script
) -> None:
    script.pause_before_segment = 0
    async with start(max_crashes=3) as client:
        job = await client.create()
        await script.until_paused()
    for _ in range(2):
        script.paused.clear()
        async with start(max_crashes=3):
            await script.until_paused()
    async with start(max_crashes=3) as client:
        ended = await client.finished(job.job_id)
        (letter,) = await letters(client)

        assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_FAILED, 4)
        assert letter.failure.reason == ended.failure.reason == "CRASH_LOOP"
        assert (letter.attempts, len(script.downloads)) == (4, 3)

        script.pause_before_segment = None
        await replay(client, job.job_id)
        again = await client.finished(job.job_id)

        assert (again.state, again.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 5)
        assert await letters(client) == []


async def test_a_runner_that_dies_before_the_job_runs_is_counted_too(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Runner._read_event_log
    deaths = 0

    async def dying(self: Runner, job_id: str, **named: Any) -> ResumeState:
        nonlocal deaths
        if deaths < 3:
            deaths += 1
            raise RuntimeError("killed")
        return await real(self, job_id, **named)

    monkeypatch.setattr(Runner, "_read_event_log", dying)
    async with start(max_crashes=3) as client:
        job = await client.create()
        ended = await _finished(client, job.job_id)
        await client.finished(job.job_id)
        (letter,) = await letters(client)

    assert (ended.failure.reason, ended.attempt, deaths) == ("CRASH_LOOP", 4, 3)
    assert letter.attempts == 4
    assert script.downloads == []


async def _finished(client: Client, job_id: str) -> job_pb2.Job:
    """Without looking at its event log."""

    async def failed() -> bool:
        return (await client.job(job_id)).state == job_pb2.JOB_STATE_FAILED

    await until(failed)
    return await client.job(job_id)


async def test_an_unreadable_work_item_does_not_end_the_runner(
    client: Client, script: Script, bus: Bus
) -> None:
    await bus.publish(bus.names.work("normal-00", "nonsense"), b"\xff\xff\xff")
    await bus.publish(bus.names.work("low-15", "nonsense-too"), b"\xff\xff\xff")

    await until(lambda: queue_is_empty(bus))
    job = await client.finished((await client.create()).job_id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED


async def test_letters_are_listed_newest_first_over_pages(
    client: Client, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.queue.paging.FIRST_WINDOW", 2)
    made = [(await dead_job(client, script)).job_id for _ in range(7)]
    await purge(client, job_id=made.pop(3))
    listed: list[str] = []
    token = ""
    while True:
        page = await client.admin.ListDeadLetters(
            pb.ListDeadLettersRequest(page_size=2, page_token=token)
        )
        assert len(page.dead_letters) <= 2
        listed += [letter.job_id for letter in page.dead_letters]
        token = page.next_page_token
        if not token:
            break

    assert listed == made[::-1]
    assert [letter.job_id for letter in await letters(client)] == made[::-1]


async def test_letters_are_listed_by_reason(client: Client, script: Script) -> None:
    job = await dead_job(client, script)
    script.failures = [SourceRefusedError("gone", reason=Reason.VIDEO_REMOVED)]
    other = await client.finished((await client.create()).job_id)

    for reason, job_id in (("VIDEO_PRIVATE", job.job_id), ("VIDEO_REMOVED", other.job_id)):
        assert [found.job_id for found in await letters(client, reason=reason)] == [job_id]
    assert await letters(client, reason="NO_AUDIO") == []


@pytest.mark.parametrize("wrong", [{"page_size": -1}, {"page_token": "x"}, {"page_token": "-1"}])
async def test_an_invalid_page_request_is_refused(client: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await letters(client, **wrong)

    assert reason_of(caught.value) == "REQUEST_INVALID"


async def test_purge_without_a_choice_removes_all(client: Client, script: Script) -> None:
    for _ in range(3):
        await dead_job(client, script)

    assert (await purge(client), await purge(client)) == (3, 0)
    assert await letters(client) == []


async def test_purge_removes_what_matches_and_nothing_else(client: Client, script: Script) -> None:
    first = await dead_job(client, script)
    script.failures = [SourceRefusedError("gone", reason=Reason.VIDEO_REMOVED)]
    second = await client.finished((await client.create()).job_id)
    third = await dead_job(client, script)

    async def left() -> list[str]:
        return [letter.job_id for letter in await letters(client)]

    assert await purge(client, before=first.end_time) == 0
    assert await purge(client, reason="VIDEO_REMOVED", before=second.end_time) == 0
    assert await purge(client, job_id=first.job_id, reason="VIDEO_REMOVED") == 0
    assert await purge(client, job_id="nonsense") == 0
    assert await purge(client, dry_run=True) == 3
    assert await left() == [third.job_id, second.job_id, first.job_id]
    assert await purge(client, reason="VIDEO_REMOVED") == 1
    assert await left() == [third.job_id, first.job_id]
    assert await purge(client, before=third.end_time) == 1
    assert await left() == [third.job_id]
    assert await purge(client, job_id=third.job_id) == 1
    assert await left() == []
    for job in (first, second, third):
        assert (await client.job(job.job_id)).state == job_pb2.JOB_STATE_FAILED
