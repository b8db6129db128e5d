"""What belongs to no job goes after its time, and nothing else does."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from mesh.bus import Bus
from mesh.correlation import new_id
from orchestrator.collections.records import CollectionStore
from orchestrator.jobs.artifacts import UPLOAD, Artifacts
from orchestrator.jobs.control import Removed
from orchestrator.jobs.storage import JobStorage
from orchestrator.maintenance.inventory import Inventory
from orchestrator.maintenance.orphans import Orphans, clear_scratch
from orchestrator.settings import Settings
from orchestrator.tasks.records import TaskStore
from tests.support.client import Client
from tests.support.scripted import SECOND

pytestmark = pytest.mark.usefixtures("sweeps_at_once")


def _orphans(bus: Bus, work_dir: Path) -> Orphans:
    return Orphans(
        JobStorage.on(bus),
        CollectionStore(bus),
        Inventory(bus),
        Settings(work_dir=work_dir),
        TaskStore(bus),
    )


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

    assert (await orphans.remove(timedelta(hours=1))).total.files == 0
    found = await orphans.remove(timedelta())

    assert (found.total.files, found.total.size) == (2, 301_000)
    assert {file.job_id async for file in Inventory(bus).files()} == {accepted.job_id}
    assert len(await Inventory(bus).chunk_groups()) == 3
    assert await client.text(accepted.job_id) == "word 1\n"


async def test_a_file_stored_again_under_its_name_outlives_the_old_one(
    bus: Bus, tmp_path: Path
) -> None:
    path, job_id = tmp_path / "x", new_id()
    path.write_bytes(b"old")
    await Artifacts(bus).put_file(job_id, UPLOAD, path)
    [old] = [file async for file in Inventory(bus).files()]
    path.write_bytes(b"new")
    await Artifacts(bus).put_file(job_id, UPLOAD, path)

    await Inventory(bus).remove(old)

    assert [data async for data in Artifacts(bus).read(job_id, UPLOAD)] == [b"new"]


async def test_a_request_id_whose_job_was_never_accepted_is_free_after_a_day(
    client: Client, bus: Bus, tmp_path: Path
) -> None:
    await client.create(request_id="accepted")
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

    counted = clear_scratch(tmp_path, 3600, dry_run=True)
    cleared = clear_scratch(tmp_path, 3600)

    assert counted == cleared == Removed(files=2, size=8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "upload-alive"]
