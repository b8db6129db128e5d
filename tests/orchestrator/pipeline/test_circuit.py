"""A stage that does not answer gets fewer calls; other stages are not affected."""

import asyncio

import pytest

from mesh.addresses import free_ports
from mesh.errors import MeshError, SourceRefusedError, TimedOutError, UnavailableError
from mesh.reasons import Reason
from mesh.server import running_server
from orchestrator.pipeline.circuit import Circuit
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.polling import still, until
from tests.support.scripted import SECOND, Script
from tests.support.scripted_stages import scripted_services
from ytcaption.v1 import admin_service_pb2, job_pb2, pipeline_service_pb2

SILENT = TimedOutError("no answer", reason=Reason.DEADLINE)
FAILURES = 3


async def _fail(circuit: Circuit, error: MeshError, times: int) -> None:
    for _ in range(times):
        async with circuit.permit() as permit:
            permit.failed(error)


async def test_only_silence_opens_a_circuit() -> None:
    circuit = Circuit("downloader", failures=FAILURES, seconds=60)

    refused = SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)
    await _fail(circuit, refused, FAILURES * 2)
    unreachable = UnavailableError("the site is down", reason=Reason.NETWORK_ERROR)
    await _fail(circuit, unreachable, FAILURES * 2)
    assert not circuit.open

    await _fail(circuit, SILENT, FAILURES)
    assert circuit.open


async def test_an_answer_in_between_starts_the_count_again() -> None:
    circuit = Circuit("downloader", failures=FAILURES, seconds=60)
    await _fail(circuit, SILENT, FAILURES - 1)
    async with circuit.permit() as permit:
        permit.answered()
    await _fail(circuit, SILENT, FAILURES - 1)

    assert not circuit.open


async def test_one_call_tries_an_open_circuit_and_lets_the_others_follow() -> None:
    circuit = Circuit("downloader", failures=1, seconds=0.01)
    await _fail(circuit, SILENT, 1)
    inside: list[int] = []
    answer = asyncio.Event()

    async def call(number: int) -> None:
        async with circuit.permit() as permit:
            inside.append(number)
            await answer.wait()
            permit.answered()

    calls = [asyncio.create_task(call(number)) for number in range(3)]
    await until(lambda: bool(inside))
    # Ten times the pause: any other call would have passed by now.
    assert await still(lambda: len(inside), 0.1) == 1

    answer.set()
    await asyncio.wait_for(asyncio.gather(*calls), 60)
    assert sorted(inside) == [0, 1, 2]
    assert not circuit.open


@pytest.mark.parametrize("learnt", [True, False], ids=["failed", "cancelled"])
async def test_a_trial_that_brings_no_answer_leaves_room_for_the_next(learnt: bool) -> None:
    circuit = Circuit("downloader", failures=1, seconds=0.01)
    await _fail(circuit, SILENT, 1)

    async with circuit.permit() as permit:
        if learnt:
            permit.failed(SILENT)
    assert circuit.open

    async with asyncio.timeout(60), circuit.permit() as permit:
        permit.answered()
    assert not circuit.open


async def test_a_downloader_that_is_spared_holds_up_no_upload(start: Start, script: Script) -> None:
    script.failures = [SILENT]
    async with start(circuit_failures=1, circuit_seconds=1000) as client:
        waiting = await client.create()
        await until(lambda: _spared(client))

        uploaded = await client.upload(*[SECOND] * 3, file_name="talk.wav")

        assert (await client.finished(uploaded.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
        held = await client.job(waiting.job_id)
        assert held.state in (job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING)
        assert len(script.downloads) == 1, "an open circuit lets no call through"


async def _spared(client: Client) -> bool:
    found = await client.admin.GetHealth(admin_service_pb2.GetHealthRequest())
    return any("without an answer" in part.detail for part in found.components)


async def test_a_replica_that_is_unavailable_is_passed_over_at_the_next_try(
    start: Start, script: Script
) -> None:
    broken = Script()
    broken.failures = [UnavailableError("busy", reason=Reason.STAGE_UNAVAILABLE)] * 10
    async with (
        running_server(scripted_services(broken), grace_seconds=0) as one,
        running_server(scripted_services(script), grace_seconds=0) as other,
        start(downloader=f"127.0.0.1:{one.port},127.0.0.1:{other.port}") as client,
    ):
        ended = []
        while len(broken.downloads) < 2:  # at first only one of them may be connected
            ended.append(await client.finished((await client.create()).job_id))

    assert {job.state for job in ended} == {job_pb2.JOB_STATE_SUCCEEDED}
    assert max(job.attempt for job in ended) == 2, "it was asked, but never twice for one job"


async def test_a_downloader_that_is_away_holds_up_only_what_it_must_fetch(
    start: Start, script: Script
) -> None:
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    async with start(downloader=listen, concurrency=1) as client:
        waiting = [await client.create() for _ in range(3)]
        uploaded = await client.upload(*[SECOND] * 3, file_name="talk.wav")

        assert (await client.finished(uploaded.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
        held = [await client.job(job.job_id) for job in waiting]
        assert [job.state for job in held] == [job_pb2.JOB_STATE_QUEUED] * 3

        async with running_server(scripted_services(script), listen, grace_seconds=0):
            ended = [await client.finished(job.job_id) for job in waiting]

    assert [(job.state, job.attempt) for job in ended] == [(job_pb2.JOB_STATE_SUCCEEDED, 1)] * 3


async def test_a_job_held_for_its_downloader_can_be_cancelled(start: Start) -> None:
    async with start(downloader=f"127.0.0.1:{free_ports(1)[0]}") as client:
        held = await client.create()

        request = pipeline_service_pb2.CancelJobRequest(job_id=held.job_id)
        ended = (await client.pipeline.CancelJob(request)).job

    assert ended.state == job_pb2.JOB_STATE_CANCELLED
