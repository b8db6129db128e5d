"""Jobs that are cancelled or deleted."""

import asyncio

import grpc
import pytest
from nats.js.errors import NotFoundError

from mesh.bus import Bus
from mesh.status import reason_of
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.scripted import SECOND, Script
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb


async def test_a_deleted_job_leaves_no_trace(client: Client, bus: Bus) -> None:
    job = await client.upload(SECOND, file_name="x.wav", request_id="mine")
    await client.finished(job.job_id)

    removed = await client.pipeline.DeleteJob(pb.DeleteJobRequest(job_id=job.job_id))

    assert (removed.events_removed > 5, removed.artifacts_removed) == (True, 3)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.job(job.job_id)
    assert reason_of(caught.value) == "JOB_NOT_FOUND"
    names = bus.names
    for stream in names.streams():
        async for stored in bus.read(stream, ">"):
            assert stored.deleted or job.job_id not in stored.subject
            assert job.job_id.encode() not in stored.data
    assert (await client.create(request_id="mine")).job_id != job.job_id


async def test_a_job_cancelled_while_it_runs_keeps_its_settled_segments(
    client: Client, script: Script
) -> None:
    script.pause_before_segment = 3
    job = await client.create()
    async for seen in client.watch(job.job_id):
        if seen.event.segment_settled.segment.index == 2:
            break

    request = pb.CancelJobRequest(job_id=job.job_id, note="enough")
    ended = (await client.pipeline.CancelJob(request)).job

    assert (ended.state, ended.cancel_note) == (job_pb2.JOB_STATE_CANCELLED, "enough")
    await asyncio.wait_for(script.stopped.wait(), 60)
    assert await client.text(job.job_id) == "word 1\nword 2\nword 3\n"


async def test_a_queued_job_is_cancelled_without_a_runner(
    start: Start, script: Script, bus: Bus
) -> None:
    script.pause_before_segment = 0
    async with start(prefix="OTHER", concurrency=1) as client:
        running = await client.create()
        await script.until_paused()
        queued = await client.create()

        ended = (await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=queued.job_id))).job

        assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_CANCELLED, 0)
        assert (await client.job(running.job_id)).state == job_pb2.JOB_STATE_RUNNING
        with pytest.raises(NotFoundError):
            await bus.jetstream.get_last_msg("OTHER_WORK", f"other.work.{queued.job_id}")
