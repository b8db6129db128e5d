"""Variables of the earlier system, and what they mean here."""

import asyncio

import pytest
from pydantic import ValidationError

from orchestrator.pipeline.stages import StageError, stage_stall_seconds
from orchestrator.pipeline.stall import StallWatch
from orchestrator.settings import Settings
from ytcaption.v1 import job_pb2

OLD = {
    "CACHE_TTL_HOURS": "3",
    "JOB_TIMEOUT_MINUTES": "90",
    "VIDEO_DOWNLOADER_TIMEOUT": "300",
    "AUDIO_NORMALIZATION_TIMEOUT": "180",
    "AUDIO_TRANSCRIBER_TIMEOUT": "600",
}


def test_old_names_count_in_their_own_units(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OLD.items():
        monkeypatch.setenv(name, value)

    settings = Settings()

    assert (settings.cache_hours, settings.job_seconds) == (3, 5400)
    assert stage_stall_seconds(settings) == {
        job_pb2.STAGE_DOWNLOAD: 300,
        job_pb2.STAGE_NORMALIZATION: 180,
        job_pb2.STAGE_TRANSCRIPTION: 600,
    }


def test_our_own_names_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHE_TTL_HOURS", "3")
    monkeypatch.setenv("ORCHESTRATOR_CACHE_HOURS", "5")

    assert Settings().cache_hours == 5


def test_an_old_name_with_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_TIMEOUT_MINUTES", "soon")

    with pytest.raises(ValidationError, match="job_seconds"):
        Settings()


@pytest.mark.parametrize("stage", [job_pb2.STAGE_DOWNLOAD, job_pb2.STAGE_TRANSCRIPTION])
async def test_a_stage_is_given_its_own_time_to_stand_still(
    stage: "job_pb2.Stage.ValueType",
) -> None:
    watch = StallWatch(3600, {stage: 0.05})

    with pytest.raises(StageError) as stalled, watch.waiting_for(stage):
        async with asyncio.timeout(30):
            await watch.raise_when_stalled()

    assert stalled.value.stage == stage
    assert "0.05 s" in str(stalled.value)


async def test_a_stage_we_come_to_wait_for_later_is_given_its_own_time_too() -> None:
    watch = StallWatch(0.3, {job_pb2.STAGE_DOWNLOAD: 3600, job_pb2.STAGE_TRANSCRIPTION: 0.1})
    waiting = asyncio.create_task(watch.raise_when_stalled())

    with watch.waiting_for(job_pb2.STAGE_DOWNLOAD):
        done, _ = await asyncio.wait({waiting}, timeout=1)
        assert not done
    with watch.waiting_for(job_pb2.STAGE_TRANSCRIPTION), pytest.raises(StageError) as stalled:
        async with asyncio.timeout(30):
            await waiting

    assert stalled.value.stage == job_pb2.STAGE_TRANSCRIPTION
