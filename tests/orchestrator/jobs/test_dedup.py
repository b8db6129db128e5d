"""Identical jobs share one run."""

import asyncio

import pytest

from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from tests.orchestrator.conftest import Start
from tests.support.client import URL, Client
from tests.support.scripted import SECOND, Script
from tests.support.segments import TEXT
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

QUICK = job_pb2.JobOptions(beam_size=1)


async def test_the_same_source_and_options_are_not_run_again(
    client: Client, script: Script
) -> None:
    first = await client.finished((await client.create(force=False)).job_id)
    second = await client.finished((await client.create(force=False)).job_id)

    assert script.downloads == [URL]
    assert second.state == job_pb2.JOB_STATE_SUCCEEDED
    assert (first.cached_from_job_id, second.cached_from_job_id) == ("", first.job_id)
    assert await client.text(second.job_id) == await client.text(first.job_id) == TEXT
    assert (second.model, second.language, second.segment_count) == ("scripted", "en", 6)
    request = pb.DownloadArtifactRequest(job_id=second.job_id, name=second.artifacts[0].name)
    audio = [frame.chunk async for frame in client.pipeline.DownloadArtifact(request)]
    assert len(b"".join(audio)) == first.artifacts[0].size_bytes


async def test_a_watcher_of_a_cached_job_sees_every_segment(client: Client) -> None:
    await client.finished((await client.create(force=False)).job_id)
    events = await client.events((await client.create(force=False)).job_id)

    texts = [e.segment_settled.segment.text for e in events if e.HasField("segment_settled")]
    assert "".join(f"{text}\n" for text in texts) == TEXT


@pytest.mark.parametrize("change", ["force", "options", "model", "age"])
async def test_a_job_is_run_if_it_is_forced_or_differs_or_the_original_is_too_old(
    start: Start, script: Script, change: str
) -> None:
    async with start(cache_hours=1e-9 if change == "age" else 24) as client:
        await client.finished((await client.create(force=False)).job_id)
        if change == "model":
            script.model = "better"
        options = QUICK if change == "options" else None
        job = await client.create(force=change == "force", options=options)
        ended = await client.finished(job.job_id)

    assert script.downloads == [URL, URL]
    assert ended.cached_from_job_id == ""


async def test_two_identical_jobs_in_flight_share_one_run(client: Client, script: Script) -> None:
    script.pause_before_segment = 3
    jobs = [await client.create(force=False) for _ in range(2)]
    await script.until_paused()
    script.go_on.set()
    ended = await asyncio.gather(*(client.finished(job.job_id) for job in jobs))

    assert script.downloads == [URL]
    assert [job.state for job in ended] == [job_pb2.JOB_STATE_SUCCEEDED] * 2
    assert sorted(bool(job.cached_from_job_id) for job in ended) == [False, True]


async def test_the_failure_of_a_job_is_not_copied_to_identical_jobs(
    client: Client, script: Script
) -> None:
    script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]
    await client.finished((await client.create(force=False)).job_id)
    ended = await client.finished((await client.create(force=False)).job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    assert script.downloads == [URL, URL]


async def test_the_key_of_a_file_is_its_content_not_its_name(client: Client) -> None:
    first = await client.upload(SECOND, file_name="one.wav", force=False)
    await client.finished(first.job_id)
    same = await client.upload(SECOND, file_name="two.wav", force=False)
    other = await client.upload(SECOND + b"x", file_name="one.wav", force=False)

    assert (await client.finished(same.job_id)).cached_from_job_id == first.job_id
    assert (await client.finished(other.job_id)).cached_from_job_id == ""


async def test_a_cached_job_outlives_the_one_it_came_from(client: Client, script: Script) -> None:
    first = await client.finished((await client.create(force=False)).job_id)
    second = await client.finished((await client.create(force=False)).job_id)
    await client.pipeline.DeleteJob(pb.DeleteJobRequest(job_id=first.job_id))

    assert await client.text(second.job_id) == TEXT
    third = await client.finished((await client.create(force=False)).job_id)
    assert third.cached_from_job_id == ""
    assert script.downloads == [URL, URL]


async def test_another_translation_model_means_another_run_for_what_is_translated(
    client: Client, script: Script
) -> None:
    plain, english = job_pb2.JobOptions(), job_pb2.JobOptions(language_out="en")
    for options in (plain, english):
        await client.finished((await client.create(force=False, options=options)).job_id)
    other = transcriber_pb.Translation(model="nllb", target_languages=["en"])
    script.translations.insert(0, other)

    same = await client.finished((await client.create(force=False, options=plain)).job_id)
    anew = await client.finished((await client.create(force=False, options=english)).job_id)
    again = await client.finished((await client.create(force=False, options=english)).job_id)

    assert same.cached_from_job_id
    assert (anew.cached_from_job_id, anew.translation_model) == ("", "nllb")
    assert (again.cached_from_job_id, again.translation_model) == (anew.job_id, "nllb")
