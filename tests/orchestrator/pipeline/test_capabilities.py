"""Options a stage cannot honour are refused before a job is accepted."""

import grpc
import pytest

from mesh.addresses import free_ports
from mesh.status import reason_of
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.scripted import SECOND, Script
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

NLLB = transcriber_pb.Translation(
    model="nllb", source_languages=["en"], target_languages=["de", "fr"]
)
VOCALS = job_pb2.JobOptions(isolate_vocals=True)


@pytest.mark.parametrize("by", ["address", "upload"])
async def test_an_option_the_normalizer_lacks_is_refused_with_what_is_missing(
    client: Client, script: Script, by: str
) -> None:
    script.missing = {"isolate_vocals": "no engine is installed"}
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await (
            client.create(options=VOCALS)
            if by == "address"
            else client.upload(SECOND, options=VOCALS)
        )

    assert reason_of(refused.value) == "OPTION_UNSUPPORTED"
    assert "no engine is installed" in (refused.value.details() or "")
    assert (await client.pipeline.ListJobs(pb.ListJobsRequest())).total_size == 0


async def test_an_option_it_has_is_passed_on(client: Client) -> None:
    ended = await client.finished((await client.create(options=VOCALS)).job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED


async def test_a_normalizer_that_cannot_be_asked_leaves_the_answer_open(start: Start) -> None:
    async with start(normalizer=f"127.0.0.1:{free_ports(1)[0]}") as client:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.create(options=VOCALS)
        accepted = await client.create()

    assert reason_of(refused.value) == "STAGE_UNAVAILABLE"
    assert accepted.job_id


async def test_a_language_the_transcriber_translates_into_is_accepted_and_passed_on(
    client: Client, script: Script
) -> None:
    script.translations.insert(0, NLLB)
    options = job_pb2.JobOptions(language_out="de-CH")

    ended = await client.finished((await client.create(options=options)).job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    assert (ended.options.language_out, ended.translation_model) == ("de", "nllb")
    assert script.starts[0].language_out == "de"


async def test_traditional_chinese_is_translated_as_chinese_and_passed_on_as_it_is(
    client: Client, script: Script
) -> None:
    script.translations.insert(
        0,
        transcriber_pb.Translation(model="nllb", source_languages=["zh"], target_languages=["de"]),
    )
    options = job_pb2.JobOptions(language="zh-TW", language_out="de")

    ended = await client.finished((await client.create(options=options)).job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    assert script.starts[0].language == "zh-Hant"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (job_pb2.JobOptions(language_out="ja"), "only into de, en, fr"),
        (job_pb2.JobOptions(language="pt", language_out="de"), "'pt' cannot be translated"),
    ],
)
async def test_a_translation_the_transcriber_cannot_do_is_refused_with_what_it_can(
    client: Client, script: Script, options: job_pb2.JobOptions, why: str
) -> None:
    script.translations.append(NLLB)

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.create(options=options)

    assert reason_of(refused.value) == "TRANSLATION_UNSUPPORTED"
    assert why in (refused.value.details() or "")
    assert (await client.pipeline.ListJobs(pb.ListJobsRequest())).total_size == 0


async def test_a_translation_is_accepted_while_the_transcriber_cannot_be_asked(
    start: Start,
) -> None:
    async with start(transcriber=f"127.0.0.1:{free_ports(1)[0]}") as client:
        accepted = await client.create(options=job_pb2.JobOptions(language_out="ja"))

    assert accepted.options.language_out == "ja"


async def test_english_from_a_transcriber_that_lists_no_translations_is_left_to_it(
    client: Client, script: Script
) -> None:
    script.translations = []

    accepted = await client.create(options=job_pb2.JobOptions(language_out="en"))

    assert accepted.options.language_out == "en"


async def test_capabilities_list_stages_formats_and_limits(start: Start, script: Script) -> None:
    script.missing = {"isolate_vocals": "no engine is installed"}
    script.translations.insert(0, NLLB)
    async with start(max_upload_bytes=1000, cache_hours=2) as client:
        found = await client.pipeline.GetAbilities(pb.GetAbilitiesRequest())

    lacking = {one.option: one.why_not for one in found.options if not one.honoured}
    assert lacking == {"isolate_vocals": "no engine is installed"}
    assert found.translations[0] == NLLB
    assert [model.name for model in found.models if model.selected]
    assert found.limits.max_upload_bytes == 1000
    assert found.limits.cache_time.seconds == 7200
    assert [one.name for one in found.caption_formats if one.usual] == ["srt", "vtt", "txt", "json"]
    assert not found.silent_stages


async def test_stages_that_cannot_be_asked_are_named(start: Start) -> None:
    unreachable = f"127.0.0.1:{free_ports(1)[0]}"
    async with start(normalizer=unreachable, transcriber=unreachable) as client:
        found = await client.pipeline.GetAbilities(pb.GetAbilitiesRequest())

    assert list(found.silent_stages) == ["normalizer", "transcriber"]
    assert not found.models
