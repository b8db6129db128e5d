"""What becomes of attempts that fail: tried again or not, and when."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from mesh.bus import Bus
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from orchestrator.pipeline.stall import StallWatch
from tests.orchestrator.conftest import Start
from tests.support.client import URL, Client
from tests.support.dead_letters import busy, private, stored
from tests.support.scripted import Script
from tests.support.segments import TEXT
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


async def test_a_transient_failure_is_retried_as_often_as_configured(
    client: Client, script: Script, bus: Bus
) -> None:
    script.failures = [busy() for _ in range(9)]

    job = await client.finished((await client.create()).job_id)

    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_FAILED, 4)
    assert len(script.downloads) == job.max_attempts == 4
    assert await _dead_letters(bus, job.job_id) == 1


async def test_a_job_succeeds_once_a_transient_failure_is_over(
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
    before = datetime.now(UTC)
    job = await client.create()
    async for seen in client.watch(job.job_id):
        if seen.event.HasField("attempt_failed"):
            break

    failed = seen.event.attempt_failed
    assert failed.failure.reason == "RATE_LIMITED"
    asked = timedelta(seconds=20)
    assert before + asked <= failed.retry_time.ToDatetime(UTC) <= datetime.now(UTC) + asked


async def test_a_stage_that_stands_still_is_named(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may stand still, too: the watch begins when only the download does.
    watch, others_wait = StallWatch.raise_when_stalled, asyncio.Event()

    async def watch_later(self: StallWatch) -> None:
        await others_wait.wait()
        await watch(self)

    monkeypatch.setattr(StallWatch, "raise_when_stalled", watch_later)
    script.pause_download_at = 2
    async with start(stall_seconds=0.3, max_attempts=1) as client:
        created = await client.create()
        await script.until_paused()
        async for seen in client.watch(created.job_id):
            if seen.event.segment_settled.segment.index == 1:
                break
        others_wait.set()
        job = await client.finished(created.job_id)

    assert (job.failure.reason, job.failure.stage) == ("STALLED", job_pb2.STAGE_DOWNLOAD)
    assert job.stages[0].state == job_pb2.STAGE_STATE_TIMED_OUT


async def _dead_letters(bus: Bus, job_id: str) -> int:
    return await stored(bus, bus.names.dead_letter_stream, bus.names.dead_letter(job_id))
