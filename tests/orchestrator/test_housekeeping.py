"""Which jobs and files are removed, when, and which must never be."""

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration import from_timedelta
from google.protobuf.duration_pb2 import Duration

from mesh.broker import Broker
from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.artifacts import UPLOAD
from orchestrator.jobs import Jobs
from orchestrator.shelves import Shelves
from tests.client import Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.polling import until
from tests.orchestrator.scripted import SECOND, Script
from tests.orchestrator.traces import gone, traces
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

pytestmark = pytest.mark.usefixtures("sweeps_at_once")

AT_ONCE = from_timedelta(timedelta())


async def _cleanup(client: Client, **fields: Any) -> admin_pb.CleanupResponse:
    return await client.admin.Cleanup(admin_pb.CleanupRequest(**fields))


async def test_cleanup_removes_old_ended_jobs_with_every_trace(
    client: Client, script: Script, bus: Bus
) -> None:
    uploaded = await client.upload(SECOND, file_name="x.wav", request_id="mine")
    await client.finished(uploaded.job_id)
    script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]
    dead = await client.create()
    await client.finished(dead.job_id)
    script.pause_before_segment = 2
    running = await client.create()
    await asyncio.wait_for(script.paused.wait(), 5)

    counted = await _cleanup(client, max_age=AT_ONCE, dry_run=True)
    assert await traces(bus, uploaded.job_id)
    done = await _cleanup(client, max_age=AT_ONCE)

    assert counted == done
    assert (done.jobs_removed, done.artifacts_removed) == (2, 3)
    assert done.events_removed > 10
    assert done.bytes_removed > len(SECOND)
    assert await traces(bus, uploaded.job_id) == await traces(bus, dead.job_id) == []
    assert (await client.job(running.job_id)).state == job_pb2.JOB_STATE_RUNNING
    script.go_on.set()
    assert (await client.finished(running.job_id)).segment_count == 6


async def test_cleanup_leaves_jobs_that_ended_within_a_day_unless_told(client: Client) -> None:
    job = await client.create()
    await client.finished(job.job_id)

    assert (await _cleanup(client)).jobs_removed == 0
    an_hour = from_timedelta(timedelta(hours=1))
    assert (await _cleanup(client, max_age=an_hour)).jobs_removed == 0
    assert not await gone(client, job.job_id)


async def _ended_job(bus: Bus, *, accepted: float, ended: float) -> str:
    """A job accepted and ended so many seconds ago."""
    stamp = f"{int((time.time() - accepted) * 1000):012x}"
    job_id = f"{stamp[:8]}-{stamp[8:]}{new_id()[13:]}"
    job = job_pb2.Job(job_id=job_id, state=job_pb2.JOB_STATE_CANCELLED)
    job.end_time.FromNanoseconds(int((time.time() - ended) * 1e9))
    await Jobs(bus).create(job_pb2.JobRecord(job=job))
    return job_id


async def test_the_age_of_a_job_counts_from_its_end(client: Client, bus: Bus) -> None:
    long_job = await _ended_job(bus, accepted=9000, ended=3000)
    old_job = await _ended_job(bus, accepted=9000, ended=4000)

    done = await _cleanup(client, max_age=from_timedelta(timedelta(hours=1)))

    assert done.jobs_removed == 1
    assert await gone(client, old_job)
    assert not await gone(client, long_job)


@pytest.mark.parametrize("seconds", [-1, 2**62])
async def test_an_impossible_age_is_refused(client: Client, seconds: int) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _cleanup(client, max_age=Duration(seconds=seconds))

    assert reason_of(caught.value) == "REQUEST_INVALID"


async def test_many_jobs_are_cleaned_up_over_pages(client: Client, bus: Bus) -> None:
    for _ in range(230):
        await _ended_job(bus, accepted=2, ended=1)

    done = await _cleanup(client, max_age=AT_ONCE)

    assert done.jobs_removed == 230
    listed = await client.pipeline.ListJobs(pb.ListJobsRequest())
    assert listed.total_size == 0


async def test_retention_removes_old_jobs_in_every_replica_at_once(
    start: Start, broker: Broker
) -> None:
    async with start() as client:
        made = [await client.create(request_id=f"r{number}") for number in range(5)]
        for job in made:
            await client.finished(job.job_id)

    async with (
        start(retention_hours=1e-6) as one,
        start(retention_hours=1e-6) as other,
        Bus.connected(broker.url) as bus,
    ):
        for job in made:
            await until(lambda job=job: gone(one, job.job_id))  # type: ignore[misc]
            assert await traces(bus, job.job_id) == []
        listed = await other.pipeline.ListJobs(pb.ListJobsRequest())
        assert listed.total_size == 0
        assert (await one.create(request_id="r0")).job_id != made[0].job_id


async def test_no_retention_keeps_jobs_for_ever(
    start: Start, broker: Broker, tmp_path: Path
) -> None:
    async with start(), Bus.connected(broker.url) as bus:
        ancient = await _ended_job(bus, accepted=1e9, ended=1e9 - 1)
    left = tmp_path / "work" / "upload-left"
    left.write_bytes(b"")
    os.utime(left, (1, 1))

    async with start(retention_hours=0) as client:

        async def swept() -> bool:
            """Leftovers are looked for last."""
            return not left.exists()

        await until(swept)
        assert not await gone(client, ancient)


@pytest.fixture
async def crowded(start: Start) -> list[job_pb2.Job]:
    """Three ended jobs whose files take well over one per cent of a small store."""
    made = []
    async with start(storage_bytes=64 * 1024**2) as client:
        for number in range(3):
            job = await client.upload(*[SECOND] * 10, file_name=f"{number}.wav")
            made.append(await client.finished(job.job_id))
    return made


async def test_a_crowded_store_loses_the_oldest_jobs_files_but_no_text(
    start: Start, crowded: list[job_pb2.Job], broker: Broker
) -> None:
    async with start(trim_percent=1.5) as client, Bus.connected(broker.url) as bus:
        shelves = Shelves(bus)

        async def uploads() -> list[str]:
            return [file.job_id async for file in shelves.files() if file.name == UPLOAD]

        async def trimmed() -> bool:
            return len(await uploads()) < 3

        await until(trimmed)
        assert crowded[0].job_id not in await uploads()
        assert crowded[2].job_id in await uploads()
        assert (await client.text(crowded[0].job_id)).startswith("word 1\nword 2\n")
        oldest = await client.job(crowded[0].job_id)
        assert [kept.name for kept in oldest.artifacts] in ([], ["audio.webm"])
        assert (await client.job(crowded[2].job_id)).artifacts


async def test_files_not_enough_the_oldest_jobs_go(
    start: Start, crowded: list[job_pb2.Job]
) -> None:
    async with start(trim_percent=0.001) as client:
        for job in crowded:
            await until(lambda job=job: gone(client, job.job_id))  # type: ignore[misc]


async def test_a_running_job_keeps_its_files_however_full_the_store(
    start: Start, script: Script
) -> None:
    script.pause_before_segment = 1
    async with start() as client:
        job = await client.upload(*[SECOND] * 3, file_name="x.wav")
        await asyncio.wait_for(script.paused.wait(), 5)
    async with start(trim_percent=0.001) as client:
        script.go_on.set()
        ended = await client.finished(job.job_id)
        assert (ended.state, ended.segment_count) == (job_pb2.JOB_STATE_SUCCEEDED, 3)
