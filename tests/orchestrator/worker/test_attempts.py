"""What becomes of attempts that fail: tried again or not, and when."""

from mesh.bus import Bus
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from tests.client import URL, Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.letters import busy, private, stored
from tests.orchestrator.scripted import Script
from tests.orchestrator.segments import TEXT
from ytcaption.v1 import job_pb2


async def test_a_permanent_reason_is_not_tried_again(
    client: Client, script: Script, bus: Bus
) -> None:
    script.failures = [private()]

    job = await client.finished((await client.create()).job_id)

    assert job.state == job_pb2.JOB_STATE_FAILED
    assert (job.failure.reason, job.failure.retryable) == ("VIDEO_PRIVATE", False)
    assert job.failure.stage == job_pb2.STAGE_DOWNLOAD
    assert job.stages[0].state == job_pb2.STAGE_STATE_FAILED
    assert script.downloads == [URL]
    assert await _dead_letters(bus, job.job_id) == 1


async def test_a_passing_reason_is_tried_as_often_as_configured(
    client: Client, script: Script, bus: Bus
) -> None:
    script.failures = [busy() for _ in range(9)]

    job = await client.finished((await client.create()).job_id)

    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_FAILED, 4)
    assert len(script.downloads) == job.max_attempts == 4
    assert await _dead_letters(bus, job.job_id) == 1


async def test_a_passing_reason_that_passes_leaves_a_good_job(
    client: Client, script: Script, bus: Bus
) -> None:
    script.failures = [busy()]

    job = await client.finished((await client.create()).job_id)

    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
    assert not job.HasField("failure")
    assert await client.text(job.job_id) == TEXT
    assert await _dead_letters(bus, job.job_id) == 0


async def test_the_next_attempt_waits_as_long_as_the_site_asked(
    client: Client, script: Script
) -> None:
    script.failures = [
        UnavailableError("slow down", reason=Reason.RATE_LIMITED, retry_after_seconds=20)
    ]
    job = await client.create()
    async for seen in client.watch(job.job_id):
        if seen.event.HasField("attempt_failed"):
            break

    failed = seen.event.attempt_failed
    assert failed.failure.reason == "RATE_LIMITED"
    wait = failed.retry_time.ToDatetime() - seen.event.timestamp.ToDatetime()
    assert 19 < wait.total_seconds() < 21


async def test_a_stage_that_stands_still_is_named(start: Start, script: Script) -> None:
    script.pause_download_at = 2
    async with start(stall_seconds=0.3, max_attempts=1) as client:
        job = await client.finished((await client.create()).job_id)

    assert (job.failure.reason, job.failure.stage) == ("STALLED", job_pb2.STAGE_DOWNLOAD)
    assert job.stages[0].state == job_pb2.STAGE_STATE_TIMED_OUT


async def _dead_letters(bus: Bus, job_id: str) -> int:
    return await stored(bus, bus.names.dead_letter_stream, bus.names.dead_letter(job_id))
