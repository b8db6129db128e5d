"""Sources that send next to nothing keep no other job from running, and can be cancelled."""

# ruff: noqa: F811 # parameters that are fixtures, imported from another room

import pytest

from orchestrator.pipeline import slow_downloads
from tests.orchestrator.conftest import (  # noqa: F401 # fixtures
    Start,
    broker,
    grpc_core,
    patient,
    script,
    start,
)
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

SLOW = [f"http://slow.example.test/{number}.mp3" for number in range(2)]
SUCCEEDED, CANCELLED = job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_CANCELLED

in_the_middle = pytest.mark.parametrize(
    "in_the_middle", [False, True], ids=["before the first byte", "in the middle"]
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A download that brings nothing for a moment is slow."""
    monkeypatch.setattr(slow_downloads, "SLOW_SECONDS", 0.1)


def hold(script: Script, *, in_the_middle: bool) -> None:
    if in_the_middle:
        script.pause_download_at = 3
    else:
        script.hanging = set(SLOW)


@in_the_middle
async def test_slow_sources_in_every_slot_hold_no_other_job_up(
    start: Start, script: Script, *, in_the_middle: bool
) -> None:
    hold(script, in_the_middle=in_the_middle)
    async with start(concurrency=2) as client:
        slow = [(await client.create(url)).job_id for url in SLOW]
        await until(lambda: script.waiting == 2)
        script.pause_download_at = None

        other = await client.finished((await client.create()).job_id)
        script.go_on.set()
        ends = [await client.finished(job_id) for job_id in slow]

    assert other.state == SUCCEEDED
    assert [(end.state, end.attempt) for end in ends] == [(SUCCEEDED, 1)] * 2


@in_the_middle
async def test_a_job_that_lent_its_slot_hears_its_cancellation(
    start: Start, script: Script, *, in_the_middle: bool
) -> None:
    hold(script, in_the_middle=in_the_middle)
    async with start(concurrency=1) as client:
        slow = (await client.create(SLOW[0])).job_id
        await until(lambda: script.waiting == 1)
        script.pause_download_at = None
        # The only slot was lent: another job had it.
        await client.finished((await client.create()).job_id)

        cancelled = await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=slow))
        await until(lambda: not script.waiting)
        # And the slot is whole again.
        other = await client.finished((await client.create()).job_id)

    assert cancelled.job.state == CANCELLED
    assert other.state == SUCCEEDED
