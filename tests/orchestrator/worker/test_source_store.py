"""What was downloaded once is not downloaded again."""

import asyncio
from pathlib import Path

import pytest

from mesh.addresses import free_ports
from mesh.bus import Bus
from mesh.server import running_server
from orchestrator.jobs.artifacts import SOURCE, Artifacts
from orchestrator.pipeline.pipes import Spool
from tests.orchestrator.conftest import Start
from tests.support.client import URL, Client
from tests.support.scripted import Script
from tests.support.scripted_stages import scripted_services
from tests.support.segments import TEXT
from ytcaption.v1 import job_pb2


async def downloaded(client: Client, job_id: str) -> None:
    async for seen in client.watch(job_id):
        if seen.event.HasField("collection_result"):
            return


async def test_the_download_does_not_wait_for_the_model(client: Client, script: Script) -> None:
    script.seconds, script.pause_before_segment = 300, 0
    job = await client.create()
    await asyncio.wait_for(downloaded(client, job.job_id), 60)
    script.go_on.set()

    assert (await client.finished(job.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def test_a_stage_that_dies_after_the_download_costs_no_second_one(
    start: Start, script: Script
) -> None:
    script.pause_before_segment = 3
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    async with start(transcriber=listen) as client:
        async with running_server(scripted_services(script), listen, grace_seconds=0):
            job = await client.create()
            await asyncio.wait_for(downloaded(client, job.job_id), 60)
            await script.until_paused()
        script.pause_before_segment = None
        async with running_server(scripted_services(script), listen, grace_seconds=0):
            ended = await client.finished(job.job_id)
            text = await client.text(job.job_id)

    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
    assert text == TEXT
    assert script.downloads == [URL]


async def test_a_runner_that_dies_after_the_download_costs_no_second_one(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch, broker_bus: Bus
) -> None:
    monkeypatch.setattr("orchestrator.worker.source_store.SOON_SECONDS", 0)
    script.pause_before_segment = 3
    artifacts = Artifacts(broker_bus)
    async with start() as first:
        job = await first.create()
        await asyncio.wait_for(downloaded(first, job.job_id), 60)
        async with asyncio.timeout(60):
            while await artifacts.size(job.job_id, SOURCE) is None:
                pass
    script.pause_before_segment = None
    async with start() as second:
        ended = await second.finished(job.job_id)
        assert await second.text(job.job_id) == TEXT

    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
    assert script.downloads == [URL]
    assert await artifacts.size(job.job_id, SOURCE) is None  # of no use any more


async def test_a_download_stored_by_the_attempt_that_succeeds_is_removed(
    client: Client, script: Script, monkeypatch: pytest.MonkeyPatch, broker_bus: Bus
) -> None:
    monkeypatch.setattr("orchestrator.worker.source_store.SOON_SECONDS", 0)
    script.pause_before_segment = 3
    artifacts = Artifacts(broker_bus)
    job = await client.create()
    async with asyncio.timeout(60):
        while await artifacts.size(job.job_id, SOURCE) is None:
            pass
    script.go_on.set()
    ended = await client.finished(job.job_id)

    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)
    assert await artifacts.size(job.job_id, SOURCE) is None


async def test_a_spool_is_read_while_it_grows(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    frames = aiter(spool)
    await spool.put(b"one")
    assert await anext(frames) == b"one"
    waiting = asyncio.ensure_future(anext(frames))
    await spool.put(b"two")
    assert await waiting == b"two"
    await spool.end()
    assert [frame async for frame in frames] == []
    spool.close()
