"""Dead letters: exactly one a dead job; listed, replayed, purged."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from mesh.broker import Broker
from mesh.bus import Bus
from mesh.errors import SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.deadletters import DeadLetters
from orchestrator.dispatcher import Dispatcher
from orchestrator.jobs import Jobs
from orchestrator.queue import WorkQueue
from orchestrator.story import StoryReader, StoryWriter
from tests.client import Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.polling import until
from tests.orchestrator.scripted import Script
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb

TEXT = "".join(f"word {second}\n" for second in range(1, 7))
NOBODY = "01a1e222-262d-7292-9757-501b145b41af"


def private() -> SourceRefusedError:
    return SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)


def busy() -> UnavailableError:
    return UnavailableError("busy", reason=Reason.SITE_ERROR)


async def dead_job(client: Client, script: Script) -> job_pb2.Job:
    script.failures = [private()]
    job = await client.finished((await client.create()).job_id)
    assert job.state == job_pb2.JOB_STATE_FAILED
    return job


async def letters(client: Client, **wanted: Any) -> list[job_pb2.DeadLetter]:
    listed = await client.admin.ListDeadLetters(pb.ListDeadLettersRequest(**wanted))
    return list(listed.dead_letters)


async def replay(client: Client, job_id: str) -> job_pb2.Job:
    request = pb.ReplayDeadLetterRequest(job_id=job_id)
    return (await client.admin.ReplayDeadLetter(request)).job


async def purge(client: Client, **wanted: Any) -> int:
    done = await client.admin.PurgeDeadLetters(pb.PurgeDeadLettersRequest(**wanted))
    return int(done.dead_letters_removed)


async def stored(bus: Bus, stream: str, subject: str) -> int:
    return len([item async for item in bus.read(stream, subject)])


async def queue_is_empty(bus: Bus) -> bool:
    return await stored(bus, bus.names.work_stream, ">") == 0


async def ended_again(client: Client, job_id: str) -> job_pb2.Job:
    """The job once a later life than the first has ended."""

    async def twice() -> bool:
        kinds = [event.type async for _, event in _story(client, job_id)]
        return kinds.count(event_pb2.EVENT_TYPE_JOB_FINISHED) > 1

    await until(twice)
    return await client.finished(job_id)


async def _story(client: Client, job_id: str) -> AsyncIterator[tuple[int, event_pb2.Event]]:
    async for seen in client.watch(job_id):
        if seen.HasField("event"):
            yield seen.sequence, seen.event


async def test_a_letter_tells_what_was_to_be_done_and_why_it_ended(
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
    dies_once(monkeypatch, DeadLetters, "bury")

    job = await dead_job(client, script)

    await until(lambda: queue_is_empty(bus))
    assert [found.job_id for found in await letters(client)] == [job.job_id]
    assert len(script.downloads) == 1


async def test_a_runner_that_dies_between_letter_and_story_leaves_one_letter(
    client: Client, script: Script, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_once(monkeypatch, StoryWriter, "tell", at=event_pb2.EVENT_TYPE_JOB_FINISHED)

    job = await dead_job(client, script)

    await until(lambda: queue_is_empty(bus))
    assert [found.job_id for found in await letters(client)] == [job.job_id]
    assert len(script.downloads) == 1


def dies_once(
    monkeypatch: pytest.MonkeyPatch, kind: type, name: str, *, at: Any = None, times: int = 1
) -> list[str]:
    """What the next caller would have done does not happen, nor anything after it."""
    real = getattr(kind, name)
    deaths: list[str] = []

    async def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        if len(deaths) < times and (at is None or arguments[0] == at):
            deaths.append(name)
            raise RuntimeError("killed")
        return await real(self, *arguments, **named)

    monkeypatch.setattr(kind, name, dying)
    return deaths


async def test_a_job_that_kills_every_runner_ends_as_a_crash_loop(
    start: Start, script: Script
) -> None:
    script.pause_before_segment = 0
    async with start(max_crashes=3) as client:
        job = await client.create()
        await asyncio.wait_for(script.paused.wait(), 5)
    for _ in range(2):
        script.paused.clear()
        async with start(max_crashes=3):
            await asyncio.wait_for(script.paused.wait(), 10)
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
    real = StoryReader.events
    deaths = 0

    async def dying(self: StoryReader, job_id: str, *rest: Any, **named: Any) -> AsyncIterator[Any]:
        nonlocal deaths
        if deaths < 3:
            deaths += 1
            raise RuntimeError("killed")
        async for found in real(self, job_id, *rest, **named):
            yield found

    async with start(max_crashes=3, ack_wait_seconds=0.5) as client:
        monkeypatch.setattr(StoryReader, "events", dying)
        job = await client.create()
        ended = await _finished(client, job.job_id)
        await client.finished(job.job_id)
        (letter,) = await letters(client)

    assert (ended.failure.reason, ended.attempt, deaths) == ("CRASH_LOOP", 4, 3)
    assert letter.attempts == 4
    assert script.downloads == []


async def _finished(client: Client, job_id: str) -> job_pb2.Job:
    """Without looking at its story."""

    async def failed() -> bool:
        return (await client.job(job_id)).state == job_pb2.JOB_STATE_FAILED

    await until(failed)
    return await client.job(job_id)


async def test_a_work_item_that_is_none_does_not_end_the_runner(
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
    monkeypatch.setattr("orchestrator.deadletters.FIRST_WINDOW", 2)
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
async def test_a_page_nobody_can_give_is_refused(client: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await letters(client, **wrong)

    assert reason_of(caught.value) == "REQUEST_INVALID"


async def test_a_replayed_job_goes_on_under_its_id_and_its_letter_is_gone(
    client: Client, script: Script, bus: Bus
) -> None:
    dead = await dead_job(client, script)

    queued = await replay(client, dead.job_id)
    ended = await client.finished(dead.job_id)

    assert (queued.job_id, queued.HasField("failure")) == (dead.job_id, False)
    assert not queued.HasField("end_time")
    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
    assert ended.start_time == dead.start_time
    assert await client.text(dead.job_id) == TEXT
    assert len(script.downloads) == 2
    assert await letters(client) == []
    await until(lambda: queue_is_empty(bus))


async def test_the_story_of_a_replayed_job_holds_both_lives(client: Client, script: Script) -> None:
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


async def test_a_replay_goes_on_from_what_was_heard(start: Start, script: Script) -> None:
    script.pause_before_segment = 3
    async with start(stall_seconds=0.3, max_attempts=1) as client:
        dead = await client.finished((await client.create()).job_id)
        script.pause_before_segment = None
        await replay(client, dead.job_id)
        ended = await client.finished(dead.job_id)

        assert (dead.failure.reason, dead.segment_count) == ("STALLED", 3)
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


@pytest.mark.parametrize("job_id", [NOBODY, "nonsense", "*", ""])
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


STEPS: list[tuple[type, str, Any]] = [
    (StoryWriter, "tell", event_pb2.EVENT_TYPE_JOB_ACCEPTED),
    (Jobs, "save", None),
    (DeadLetters, "remove", None),
]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("step", STEPS, ids=["story", "record", "letter"])
async def test_a_replay_cut_short_after_its_work_item_still_runs_once(  # noqa: PLR0913
    start: Start,
    script: Script,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[type, str, Any],
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
    dies_once(monkeypatch, WorkQueue, "put")

    with pytest.raises(grpc.aio.AioRpcError):
        await replay(client, dead.job_id)

    assert (await client.job(dead.job_id)).state == job_pb2.JOB_STATE_FAILED
    assert len(await letters(client)) == 1
    await replay(client, dead.job_id)
    assert (await client.finished(dead.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def test_a_late_acknowledgement_of_the_first_life_cannot_swallow_a_replay(
    start: Start, script: Script, broker: Broker
) -> None:
    async with start(concurrency=1) as client, Bus.connected(broker.url) as bus:
        dead = await dead_job(client, script)
        await until(lambda: queue_is_empty(bus))
        script.pause_before_segment = 0
        await client.create()
        await asyncio.wait_for(script.paused.wait(), 5)
        queue = WorkQueue(bus, ack_wait_seconds=2, max_deliveries=100)
        await queue.put(dead)
        async with Dispatcher(bus, queue).listening() as taking:
            held = await taking.next()

        await replay(client, dead.job_id)
        await held.ack_sync()
        script.go_on.set()

        ended = await asyncio.wait_for(client.finished(dead.job_id), 20)
        assert ended.state == job_pb2.JOB_STATE_SUCCEEDED


async def test_a_replayed_job_that_waits_can_be_cancelled(start: Start, script: Script) -> None:
    async with start(concurrency=1) as client:
        dead = await dead_job(client, script)
        script.pause_before_segment = 0
        await client.create()
        await asyncio.wait_for(script.paused.wait(), 5)
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

    await DeadLetters(bus).bury(job_pb2.Job(job_id=dead.job_id, attempt=7))
    found = await DeadLetters(bus).of(dead.job_id)
    assert found is not None
    assert found.attempts == 7
    assert await stored(bus, bus.names.dead_letter_stream, ">") == 1


async def test_a_slow_runner_cannot_bury_a_replayed_job_again(
    client: Client, script: Script, bus: Bus
) -> None:
    dead = await dead_job(client, script)
    await replay(client, dead.job_id)
    await client.finished(dead.job_id)

    await DeadLetters(bus).bury(dead)

    assert await stored(bus, bus.names.dead_letter_stream, ">") == 0


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
