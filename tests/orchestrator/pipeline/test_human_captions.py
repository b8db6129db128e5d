"""Captions a human made stand in for listening, if the caller prefers them."""

from typing import Any

import grpc
import pytest

from mesh.status import reason_of
from orchestrator.pipeline.stages import STAGES
from tests.support.client import Client
from tests.support.scripted import SECOND, Script
from ytcaption.v1 import job_pb2

PREFER = job_pb2.CAPTIONS_POLICY_PREFER_HUMAN
SAID = ["Bom dia.", "Até logo."]


def _options(**more: Any) -> job_pb2.JobOptions:
    return job_pb2.JobOptions(captions_policy=PREFER, **more)


def _states(job: job_pb2.Job) -> list[str]:
    return [
        job_pb2.StageState.Name(stage.state).removeprefix("STAGE_STATE_") for stage in job.stages
    ]


async def test_human_made_captions_are_used_and_named_in_the_job(
    client: Client, script: Script
) -> None:
    script.captions = SAID
    ended = await client.finished((await client.create(options=_options())).job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    assert (ended.human_captions.language, ended.human_captions.name) == ("pt-BR", "by hand")
    assert ended.language == "pt-BR"
    assert _states(ended) == ["COMPLETED", *["SKIPPED"] * (len(STAGES) - 1)]
    assert (await client.text(ended.job_id)).splitlines() == SAID
    assert script.downloads == script.starts == []


async def test_without_human_made_captions_the_recording_is_transcribed(
    client: Client, script: Script
) -> None:
    ended = await client.finished((await client.create(options=_options())).job_id)

    assert not ended.HasField("human_captions")
    assert _states(ended) == ["COMPLETED"] * len(STAGES)
    assert script.caption_languages == [[]]
    assert "word 1" in await client.text(ended.job_id)


async def test_captions_are_looked_up_only_with_the_prefer_human_policy(
    client: Client, script: Script
) -> None:
    script.captions = SAID
    ended = await client.finished((await client.create()).job_id)

    assert script.caption_languages == []
    assert not ended.HasField("human_captions")


async def test_an_upload_is_always_transcribed(client: Client, script: Script) -> None:
    script.captions = SAID
    job = await client.upload(SECOND, file_name="talk.wav", options=_options())

    assert not (await client.finished(job.job_id)).HasField("human_captions")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (_options(language="pt"), ["pt"]),
        (_options(language="pt", language_out="en"), ["en"]),
        (_options(), []),
        (_options(languages=["pt", "es"]), ["pt", "es"]),
    ],
    ids=["as spoken", "as translated", "whatever is spoken", "any of several"],
)
async def test_the_requested_language_is_passed_to_the_caption_lookup(
    client: Client, script: Script, options: job_pb2.JobOptions, wanted: list[str]
) -> None:
    await client.finished((await client.create(options=options)).job_id)

    assert script.caption_languages == [wanted]


async def test_an_attempt_that_breaks_off_in_the_middle_goes_on_with_the_captions(
    client: Client, script: Script
) -> None:
    script.captions = SAID
    script.captions_break_after = 1
    ended = await client.finished((await client.create(options=_options())).job_id)

    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
    assert (await client.text(ended.job_id)).splitlines() == SAID
    assert script.starts == []


async def test_word_times_cannot_be_had_with_captions_a_human_made(client: Client) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.create(options=_options(word_timestamps=True))

    assert reason_of(refused.value) == "REQUEST_INVALID"
