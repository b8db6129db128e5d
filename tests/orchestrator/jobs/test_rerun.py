"""A job that has ended, run anew as another one."""

import grpc
import pytest

from mesh.bus import Bus
from mesh.status import reason_of
from orchestrator.jobs.artifacts import UPLOAD, Artifacts
from tests.support.client import Client
from tests.support.scripted import SECOND, Script
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

OPTIONS = job_pb2.JobOptions(language="pt", word_timestamps=True)


async def test_an_address_is_fetched_again_with_the_same_options(client: Client) -> None:
    first = await client.create(options=OPTIONS, caller="alice", priority=job_pb2.PRIORITY_LOW)
    await client.finished(first.job_id)

    second = await _repeat(client, first.job_id)
    ended = await client.finished(second.job_id)

    assert second.job_id != first.job_id
    assert (second.source, second.options) == (first.source, first.options)
    assert (second.caller, second.priority) == ("alice", job_pb2.PRIORITY_LOW)
    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    assert not ended.cached_from_job_id


async def test_a_rerun_of_an_upload_has_its_own_copy_of_the_file(client: Client) -> None:
    first = await client.upload(SECOND, file_name="talk.wav")
    await client.finished(first.job_id)

    second = await _repeat(client, first.job_id)
    await client.pipeline.DeleteJob(pb.DeleteJobRequest(job_id=first.job_id))
    ended = await client.finished(second.job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    assert ended.source == first.source


async def test_the_same_request_twice_is_one_job(client: Client) -> None:
    first = await client.create()
    await client.finished(first.job_id)

    made = [await _repeat(client, first.job_id, request_id="once") for _ in range(2)]

    assert made[0].job_id == made[1].job_id


async def test_a_job_that_has_not_ended_is_refused(client: Client, script: Script) -> None:
    script.pause_before_segment = 0
    running = await client.create()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await _repeat(client, running.job_id)

    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert reason_of(refused.value) == "JOB_NOT_ENDED"


async def test_a_rerun_of_a_removed_upload_is_refused_as_not_found(
    client: Client, bus: Bus
) -> None:
    first = await client.upload(SECOND)
    await client.finished(first.job_id)
    await Artifacts(bus).drop(first.job_id, UPLOAD)

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await _repeat(client, first.job_id)

    assert reason_of(refused.value) == "ARTIFACT_NOT_FOUND"


async def _repeat(client: Client, job_id: str, request_id: str = "") -> job_pb2.Job:
    request = pb.RepeatJobRequest(job_id=job_id, request_id=request_id)
    return (await client.pipeline.RepeatJob(request)).job
