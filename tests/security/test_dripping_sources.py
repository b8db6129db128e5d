"""Sources that send next to nothing keep no other job from running."""

import pytest

from orchestrator.pipeline import pipes
from tests.orchestrator.conftest import Start
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import job_pb2

SLOW = [f"http://slow.example.test/{number}.mp3" for number in range(2)]
SUCCEEDED = job_pb2.JOB_STATE_SUCCEEDED


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A download that brings nothing for a moment is slow."""
    monkeypatch.setattr(pipes, "SLOW_SECONDS", 0.1)


@pytest.mark.parametrize("in_the_middle", [False, True])
async def test_slow_sources_in_every_slot_hold_no_other_job_up(
    start: Start, script: Script, *, in_the_middle: bool
) -> None:
    if in_the_middle:
        script.pause_download_at = 3
    else:
        script.hanging = set(SLOW)
    async with start(concurrency=2) as client:
        slow = [(await client.create(url)).job_id for url in SLOW]
        await until(lambda: script.waiting == 2)
        script.pause_download_at = None

        other = await client.finished((await client.create()).job_id)
        script.go_on.set()
        ends = [await client.finished(job_id) for job_id in slow]

    assert other.state == SUCCEEDED
    assert [(end.state, end.attempt) for end in ends] == [(SUCCEEDED, 1)] * 2
