"""What is removed, when, and what must never be."""

import asyncio
import os
import shutil
import time
from collections import namedtuple
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration import from_timedelta
from google.protobuf.duration_pb2 import Duration
from nats.js import api

from mesh.addresses import free_ports
from mesh.broker import Broker
from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator import room, scratch
from orchestrator.artifacts import UPLOAD, Artifacts
from orchestrator.jobs import Jobs
from orchestrator.orphans import Orphans
from orchestrator.settings import Settings
from orchestrator.shelves import Shelves
from tests.client import Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.scripted import SECOND, Script
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

AT_ONCE = from_timedelta(timedelta())
ERASE = "ERASE EVERYTHING"
Disk = namedtuple("Disk", "total used free")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Housekeeping begins with the orchestrator."""
    monkeypatch.setattr("orchestrator.housekeeping.FIRST_SWEEP_SECONDS", 0)


async def _until(condition: Callable[[], Any], seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 # about other processes
            await asyncio.sleep(0.05)


async def _gone(client: Client, job_id: str) -> bool:
    try:
        await client.job(job_id)
    except grpc.aio.AioRpcError as error:
        return reason_of(error) == "JOB_NOT_FOUND"
    return False


async def _traces(bus: Bus, job_id: str) -> list[str]:
    """Every stored message that still knows the job."""
    return [
        stored.subject
        for stream in bus.names.streams()
        async for stored in bus.read(stream, ">")
        if not stored.deleted and (job_id in stored.subject or job_id.encode() in stored.data)
    ]


async def _everything(bus: Bus) -> dict[str, list[tuple[int, str, bytes]]]:
    return {
        stream: [
            (found.sequence, found.subject, found.data) async for found in bus.read(stream, ">")
        ]
        for stream in bus.names.streams()
    }


async def _cleanup(client: Client, **fields: Any) -> admin_pb.CleanupResponse:
    return await client.admin.Cleanup(admin_pb.CleanupRequest(**fields))


async def _reset(client: Client, **fields: Any) -> dict[str, admin_pb.ServiceReset]:
    done = await client.admin.FactoryReset(admin_pb.FactoryResetRequest(**fields))
    return {service.name: service for service in done.services}


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
    assert await _traces(bus, uploaded.job_id)
    done = await _cleanup(client, max_age=AT_ONCE)

    assert counted == done
    assert (done.jobs_removed, done.artifacts_removed) == (2, 3)
    assert done.events_removed > 10
    assert done.bytes_removed > len(SECOND)
    assert await _traces(bus, uploaded.job_id) == await _traces(bus, dead.job_id) == []
    assert (await client.job(running.job_id)).state == job_pb2.JOB_STATE_RUNNING
    script.go_on.set()
    assert (await client.finished(running.job_id)).segment_count == 6


async def test_cleanup_leaves_jobs_that_ended_within_a_day_unless_told(client: Client) -> None:
    job = await client.create()
    await client.finished(job.job_id)

    assert (await _cleanup(client)).jobs_removed == 0
    an_hour = from_timedelta(timedelta(hours=1))
    assert (await _cleanup(client, max_age=an_hour)).jobs_removed == 0
    assert not await _gone(client, job.job_id)


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
    assert await _gone(client, old_job)
    assert not await _gone(client, long_job)


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
            await _until(lambda job=job: _gone(one, job.job_id))  # type: ignore[misc]
            assert await _traces(bus, job.job_id) == []
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

        await _until(swept)
        assert not await _gone(client, ancient)


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

        await _until(trimmed)
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
            await _until(lambda job=job: _gone(client, job.job_id))  # type: ignore[misc]


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


def _orphans(bus: Bus, work_dir: Path) -> Orphans:
    return Orphans(bus, Jobs(bus), Shelves(bus), Settings(work_dir=work_dir))


async def test_files_of_a_job_that_was_never_accepted_go_after_their_time(
    client: Client, bus: Bus, tmp_path: Path
) -> None:
    accepted = await client.upload(SECOND, file_name="x.wav")
    await client.finished(accepted.job_id)
    lost = tmp_path / "lost.wav"
    lost.write_bytes(b"\0" * 300_000)
    await Artifacts(bus).put_file(new_id(), UPLOAD, lost)
    # As a process that dies in the middle of storing leaves it: chunks without a name.
    await bus.jetstream.publish(f"$O.{bus.names.artifacts_bucket}.C.halfmade", b"\0" * 1000)
    orphans = _orphans(bus, tmp_path / "work")

    assert (await orphans.remove(timedelta(hours=1))).files == 0
    found = await orphans.remove(timedelta())

    assert (found.files, found.size) == (2, 301_000)
    assert {file.job_id async for file in Shelves(bus).files()} == {accepted.job_id}
    assert len(await Shelves(bus).piles()) == 3
    assert await client.text(accepted.job_id) == "word 1\n"


async def test_a_file_stored_again_under_its_name_outlives_the_old_one(
    bus: Bus, tmp_path: Path
) -> None:
    path, job_id = tmp_path / "x", new_id()
    path.write_bytes(b"old")
    await Artifacts(bus).put_file(job_id, UPLOAD, path)
    [old] = [file async for file in Shelves(bus).files()]
    path.write_bytes(b"new")
    await Artifacts(bus).put_file(job_id, UPLOAD, path)

    await Shelves(bus).remove(old)

    assert [data async for data in Artifacts(bus).read(job_id, UPLOAD)] == [b"new"]


async def test_a_request_id_whose_job_never_came_is_free_after_a_day(
    client: Client, bus: Bus, tmp_path: Path
) -> None:
    await client.create(request_id="kept")
    a_week_ago = f"{int((time.time() - 7 * 86_400) * 1000):012x}"
    ancient = f"{a_week_ago[:8]}-{a_week_ago[8:]}-7000-8000-000000000000"
    await bus.jobs.create("request.ancient", ancient.encode())
    await bus.jobs.create("request.recent", new_id().encode())

    await _orphans(bus, tmp_path / "work").remove(timedelta(hours=1))

    keys = [key for key in await bus.jobs.keys() if key.startswith("request.")]
    assert len(keys) == 2
    assert "request.recent" in keys


def test_only_our_own_idle_leftovers_are_cleared(tmp_path: Path) -> None:
    attempt = tmp_path / "tmpdead"
    attempt.mkdir()
    (attempt / "audio.webm").write_bytes(b"12345")
    for name in ("upload-dead", "upload-alive", "precious"):
        (tmp_path / name).write_bytes(b"123")
    for path in (attempt / "audio.webm", attempt, tmp_path / "upload-dead", tmp_path / "precious"):
        os.utime(path, (1, 1))

    counted = scratch.clear(tmp_path, 3600, dry_run=True)
    cleared = scratch.clear(tmp_path, 3600)

    assert counted == cleared == scratch.Leftovers(files=2, size=8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "upload-alive"]


async def test_a_reset_wants_its_exact_confirmation(client: Client) -> None:
    job = await client.create()
    for words in ("", "erase everything", "ERASE EVERYTHING "):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _reset(client, confirmation=words)
        assert reason_of(caught.value) == "CONFIRMATION_MISSING"
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not await _gone(client, job.job_id)


async def test_a_reset_removes_all_of_ours_and_nothing_of_others(
    start: Start, script: Script, broker: Broker
) -> None:
    async with (
        start(prefix="YTC_TOO") as neighbour,
        start(concurrency=1) as client,
        Bus.connected(broker.url) as bus,
        Bus.connected(broker.url, prefix="YTC_TOO") as theirs,
    ):
        await bus.jetstream.add_stream(
            api.StreamConfig(name="FOREIGN", subjects=["foreign.>", "ytcx.>"])
        )
        await bus.jetstream.publish("foreign.thing", b"precious")
        bucket = await bus.jetstream.create_key_value(api.KeyValueConfig(bucket="THEIRS"))
        await bucket.put("key", b"value")
        spared = await neighbour.upload(SECOND, file_name="n.wav", request_id="theirs")
        await neighbour.finished(spared.job_id)
        await _until(lambda: _is_idle(theirs))
        before = await _everything(theirs)
        made = [await client.upload(SECOND, file_name="x.wav", request_id="mine")]
        await client.finished(made[0].job_id)
        script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]
        made.append(await client.create())
        await client.finished(made[1].job_id)
        await _until(lambda: _is_idle(bus))
        script.pause_before_segment = 2
        made += [await client.create() for _ in range(3)]
        await asyncio.wait_for(script.paused.wait(), 5)

        counted = await _reset(client, confirmation=ERASE, dry_run=True)
        states = sorted([(await client.job(job.job_id)).state for job in made[2:]])
        assert states == [job_pb2.JOB_STATE_QUEUED] * 2 + [job_pb2.JOB_STATE_RUNNING]
        done = await _reset(client, confirmation=ERASE)

        own = done["orchestrator"]
        assert (own.done, own.error) == (True, "")
        assert (own.jobs_removed, own.files_removed, own.tasks_purged) == (5, 3, 3)
        assert counted["orchestrator"].jobs_removed == 5
        assert counted["orchestrator"].files_removed == 3
        assert counted["orchestrator"].tasks_purged == 3
        assert own.bytes_removed > len(SECOND)
        await asyncio.wait_for(script.stopped.wait(), 1)
        for job in made:
            assert await _traces(bus, job.job_id) == []
        assert await _left(bus) == []
        assert await _everything(theirs) == before
        assert await neighbour.text(spared.job_id) == "word 1\n"
        assert (await bus.jetstream.stream_info("FOREIGN")).state.messages == 1
        assert (await bucket.get("key")).value == b"value"
        script.pause_before_segment = None
        again = await client.create(request_id="mine")
        assert (await client.finished(again.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def _is_idle(bus: Bus) -> bool:
    """A work item outlives the end of its job by a moment."""
    return (await bus.jetstream.stream_info(bus.names.work_stream)).state.messages == 0


async def _left(bus: Bus) -> list[str]:
    return [
        stored.subject
        for stream in bus.names.streams()
        async for stored in bus.read(stream, ">")
        if not stored.deleted
    ]


async def test_a_reset_asks_every_replica_of_every_stage_and_reports_who_is_down(
    start: Start, script: Script
) -> None:
    script.purge_files, script.purge_bytes = 2, 70
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    async with start() as client:
        whole = await _reset(client, confirmation=ERASE)
    async with start(transcriber=nobody) as client:
        partly = await _reset(client, confirmation=ERASE, dry_run=True)

    assert list(whole) == ["orchestrator", "downloader", "normalizer", "transcriber"]
    for name in ("downloader", "normalizer", "transcriber"):
        assert (whole[name].done, whole[name].files_removed) == (True, 2)
        assert whole[name].bytes_removed == 70
    assert script.purges == [False] * 3 + [True] * 2
    assert partly["downloader"].done
    assert not partly["transcriber"].done
    assert nobody in partly["transcriber"].error


async def test_a_job_accepted_during_a_reset_runs_or_is_gone_but_never_hangs(
    start: Start,
) -> None:
    async with start() as client:
        for _ in range(10):
            await client.create()
        over = asyncio.Event()
        made: list[str] = []

        async def submit() -> None:
            while not over.is_set():
                made.append((await client.upload(SECOND, file_name="x.wav")).job_id)

        submitting = asyncio.create_task(submit())
        done = await _reset(client, confirmation=ERASE)
        over.set()
        await submitting

        assert done["orchestrator"].done, done["orchestrator"].error
        later = await client.upload(SECOND, file_name="x.wav")
        for job_id in [*made, later.job_id]:
            if not await _gone(client, job_id):
                ended = await asyncio.wait_for(client.finished(job_id), 20)
                assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
        assert not await _gone(client, later.job_id)


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
        await asyncio.wait_for(script.paused.wait(), 5)
    script.pause_before_segment = None
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(10**12, 10**12, 1000))
    asked: list[str] = []
    monkeypatch.setattr(room.log, "warning", lambda text, **_: asked.append(text))
    async with start() as client:

        async def told() -> bool:
            return "no work is taken until the disk has room" in asked

        await _until(told)
        assert (await client.job(job.job_id)).attempt == 1
        monkeypatch.setattr(shutil, "disk_usage", real)
        ended = await client.finished(job.job_id)
        assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
