"""A full disk or store refuses work before it begins; what it has it keeps."""

import shutil
from collections import namedtuple
from pathlib import Path

import grpc
import pytest

from mesh.status import reason_of
from orchestrator.queue import capacity as capacity
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.polling import until
from tests.support.scripted import SECOND, Script
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

pytestmark = pytest.mark.usefixtures("sweeps_at_once")

Disk = namedtuple("Disk", "total used free")


async def test_a_full_disk_refuses_jobs_before_they_begin(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(10**12, 10**12, 1000))
    async with start() as client:
        for refused in (client.create(), client.upload(SECOND, file_name="x.wav")):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await refused
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert reason_of(caught.value) == "STORAGE_FULL"
        listed = await client.pipeline.ListJobs(pb.ListJobsRequest())
        assert listed.total_size == 0
    assert script.downloads == []


async def test_an_upload_of_unknown_size_ends_when_the_disk_is_full(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def filled_by_the_upload(folder: Path) -> Disk:
        files = [path for path in folder.glob("upload-*") if path.stat().st_size > 1024**2]
        return Disk(10**12, 0, 1000 if files else 10**12)

    monkeypatch.setattr(shutil, "disk_usage", filled_by_the_upload)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.upload(*[SECOND] * 1700, file_name="x.wav")

    assert reason_of(caught.value) == "STORAGE_FULL"
    assert list((tmp_path / "work").glob("upload-*")) == []


async def test_an_upload_that_would_not_fit_is_refused_before_it_is_read(client: Client) -> None:
    too_much = 200 * 1024**2  # of 256 MiB in all, 70 % are for files
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.upload(SECOND, file_name="x.wav", size_bytes=too_much)

    assert reason_of(caught.value) == "STORAGE_FULL"


async def test_a_store_that_is_nearly_full_refuses_jobs_but_knows_the_old_ones(
    start: Start,
) -> None:
    async with start() as client:
        job = await client.create(request_id="mine")
        await client.finished(job.job_id)
    async with start(full_percent=0.0001) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.create()
        assert reason_of(caught.value) == "STORAGE_FULL"
        assert (await client.create(request_id="mine")).job_id == job.job_id


async def test_a_job_waits_while_the_disk_is_full_and_runs_when_it_is_not(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.pause_before_segment = 1
    async with start() as client:
        job = await client.create()
        await script.until_paused()
    script.pause_before_segment = None
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(10**12, 10**12, 1000))
    warnings: list[str] = []
    monkeypatch.setattr(capacity.log, "warning", lambda text, **_: warnings.append(text))
    async with start() as client:

        async def warned() -> bool:
            return "no work is taken until the disk has room" in warnings

        await until(warned)
        assert (await client.job(job.job_id)).attempt == 1
        monkeypatch.setattr(shutil, "disk_usage", real)
        ended = await client.finished(job.job_id)
        assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
