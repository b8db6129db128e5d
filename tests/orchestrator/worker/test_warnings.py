"""Warnings of a job that succeeded although something is doubtful."""

import json

from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

UNCERTAIN = ["TRANSCRIPT_UNCERTAIN"]


def reasons(job: job_pb2.Job) -> list[str]:
    return [warning.reason for warning in job.warnings]


async def uncertain_in_json(client: Client, job_id: str) -> list[bool]:
    request = pb.GetCaptionsRequest(job_id=job_id, format=media_pb2.CAPTION_FORMAT_JSON)
    found = json.loads((await client.pipeline.GetCaptions(request)).content)
    return [segment.get("uncertain", False) for segment in found["segments"]]


async def test_a_job_without_doubts_has_no_warnings(client: Client) -> None:
    job = await client.finished((await client.create()).job_id)

    assert reasons(job) == []


async def test_an_uncertain_segment_that_a_lost_runner_settled_is_in_the_warning(
    start: Start, script: Script
) -> None:
    script.uncertain = {1}
    script.pause_before_segment = 3
    async with start() as first:
        job = await first.create()
        await script.until_paused()
        async for seen in first.watch(job.job_id):
            if seen.event.segment_settled.segment.index == 2:
                break
    script.pause_before_segment = None
    async with start() as second:
        ended = await second.finished(job.job_id)
        marked = await uncertain_in_json(second, job.job_id)

    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
    assert script.starts[-1].settled_offset.ToSeconds() == 2
    assert [(one.reason, one.message) for one in ended.warnings] == [
        ("TRANSCRIPT_UNCERTAIN", "1 passage is uncertain: 0:01")
    ]
    assert marked == [False, True, False, False, False, False]


async def test_a_detected_language_that_is_doubtful_is_a_warning_and_a_named_one_is_not(
    client: Client, script: Script
) -> None:
    script.language_probability = 0.41

    events = await client.events((await client.create()).job_id)
    detected = events[-1].job_finished.job
    options = job_pb2.JobOptions(language="en")
    named = await client.finished((await client.create(options=options)).job_id)

    assert reasons(detected) == ["LANGUAGE_UNCERTAIN"]
    assert events[-2].execution_result.warnings == detected.warnings
    assert "English with a probability of 41 %" in detected.warnings[0].message
    assert reasons(named) == []


async def test_warnings_of_an_earlier_attempt_are_not_repeated(
    start: Start, script: Script
) -> None:
    script.damage = ["the recording ends early"]
    script.pause_before_segment = 5
    async with start() as first:
        job = await first.create()
        await script.until_paused()

        async def stored() -> bool:
            return reasons(await first.job(job.job_id)) == ["MEDIA_DAMAGED"]

        await until(stored)
    script.pause_before_segment = None
    async with start() as second:
        ended = await second.finished(job.job_id)

    assert (ended.attempt, reasons(ended)) == (2, ["MEDIA_DAMAGED"])


async def test_a_copied_result_has_the_warnings_of_the_original(
    client: Client, script: Script
) -> None:
    script.uncertain = {0}
    first = await client.finished((await client.create(force=False)).job_id)
    second = await client.finished((await client.create(force=False)).job_id)

    assert second.cached_from_job_id == first.job_id
    assert reasons(first) == reasons(second) == UNCERTAIN
