"""Callers of the earlier system: its documents' answers, and the program that polls.

YTC_SEEDS names a folder with the documents themselves; without it our copy of them counts.
"""

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mesh.broker import CREDENTIALS, url_of
from mesh.bus import Bus
from mesh.correlation import new_id
from orchestrator.jobs.store import JobStore
from tests.conftest import DATA, RealMesh
from tests.support.contract import misfits, shapes_of
from tests.support.http import ended_job
from tests.support.polling import until
from tests.support.site import Site
from ytcaption.v1 import job_pb2

CONTRACT = DATA / "contract"
SHAPES = shapes_of((CONTRACT / "http.md").read_text())
NO_POLLING = {
    ".settings.poll_interval: None is not like 3",
    ".settings.max_poll_attempts: None is not like 600",
}
"""Documented in docs/http.md: nothing polls."""
HTTPX = "import sys\nimport httpx2\nsys.modules[__name__] = httpx2\n"
"""The program's client library under its newer name."""


def response(route: str) -> Any:
    return SHAPES[route, "Response"]


async def test_every_answer_has_the_fields_and_types_of_the_documents(
    http: httpx2.AsyncClient, finished_job: dict[str, Any], spoken_url: str
) -> None:
    asked = SHAPES["/pipeline", "Request"] | {"youtube_url": spoken_url, "force": True}
    accepted = (await http.post("/pipeline", json=asked)).json()
    await ended_job(http, accepted["job_id"])
    job = (await http.get(f"/jobs/{accepted['job_id']}")).json()
    found = {
        "/pipeline": accepted,
        "/jobs/{job_id}": job,
        "/jobs": (await http.get("/jobs")).json(),
        "/health": (await http.get("/health")).json(),
        "/admin/stats": (await http.get("/admin/stats")).json(),
        "/admin/cleanup": (await http.post("/admin/cleanup")).json(),
    }

    problems = {
        f"{route}{problem}"
        for route, answer in found.items()
        for problem in misfits(answer, response(route))
    }

    assert problems == {f"/admin/stats{problem}" for problem in NO_POLLING}
    assert found["/admin/stats"]["settings"]["polling"]
    assert accepted["message"] == response("/pipeline")["message"]
    assert found["/admin/cleanup"]["message"] == response("/admin/cleanup")["message"]
    assert found["/admin/cleanup"]["logs_cleaned"] is False
    assert job["transcription_file"] == response("/jobs/{job_id}")["transcription_file"]
    assert job["audio_file"] == response("/jobs/{job_id}")["audio_file"]
    assert (await http.get(job["transcription_url"])).status_code == 200
    assert (await http.get(job["audio_url"])).status_code == 200
    ids = [job["job_id"], *(stage["job_id"] for stage in job["stages"].values())]
    assert len(set(ids)) == 4


async def test_a_factory_reset_answers_as_in_the_documents(start_gateway: Any) -> None:
    async with start_gateway() as client:
        query = {"confirmation": "ERASE EVERYTHING", "dry_run": True}
        answer = (await client.post("/admin/factory-reset", params=query)).json()
        refused = await client.post("/admin/factory-reset")

    assert misfits(answer, response("/admin/factory-reset")) == [
        ".warning: None is not like 'Todos os dados foram removidos de todos os serviços'"
    ], "a dry run has removed nothing"
    assert answer["orchestrator"]["logs_cleaned"] is False
    assert {one["status"] for one in answer["microservices"].values()} == {"success"}
    assert refused.json()["reason"] == "CONFIRMATION_MISSING"


async def test_timestamps_have_no_offset_only_if_a_client_asks_for_that(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    path = f"/jobs/{finished_job['job_id']}"
    usual = (await http.get(path)).json()
    naive = (await http.get(path, params={"naive_timestamps": True})).json()
    listed = (await http.get("/jobs", params={"naive_timestamps": True})).json()
    health = (await http.get("/health", params={"naive_timestamps": True})).json()

    stamps = [naive["created_at"], naive["stages"]["download"]["started_at"]]
    stamps += [naive["stages"]["transcription"]["completed_at"], listed["jobs"][0]["updated_at"]]
    stamps.append(health["timestamp"])
    assert [datetime.fromisoformat(one).utcoffset() for one in stamps if one] == [None] * len(
        [one for one in stamps if one]
    )
    assert usual["created_at"] == f"{naive['created_at']}Z"
    assert naive.keys() == usual.keys()
    assert naive["transcription_segments"] == usual["transcription_segments"]


@pytest.fixture
async def bus(real_mesh: RealMesh) -> AsyncIterator[Bus]:
    """The store of the real mesh."""
    told = (real_mesh.data_dir / "up.log").read_text()
    [port] = re.findall(r"nats 127\.0\.0\.1:(\d+)", told)
    key = real_mesh.data_dir / "nats" / CREDENTIALS / "orchestrator.nk"
    async with Bus.connected(url_of(int(port)), credentials=str(key), answer_seconds=60) as bus:
        yield bus


async def _ended(bus: Bus, hours: float) -> str:
    """The id of a job that ended so many hours ago."""
    now = time.time()
    stamp = f"{int((now - 3600 * (hours + 1)) * 1000):012x}"
    job_id = f"{stamp[:8]}-{stamp[8:]}{new_id()[13:]}"
    job = job_pb2.Job(job_id=job_id, state=job_pb2.JOB_STATE_CANCELLED)
    job.end_time.FromNanoseconds(int((now - 3600 * hours) * 1e9))
    await JobStore(bus).create(job_pb2.JobRecord(job=job))
    return job_id


async def test_a_deep_cleanup_leaves_younger_jobs_and_removes_old_logs(
    http: httpx2.AsyncClient, real_mesh: RealMesh, bus: Bus
) -> None:
    young, old = await _ended(bus, 1), await _ended(bus, 25)
    logs = real_mesh.data_dir / "logs"
    new_log, old_log, kept = (
        logs / name for name in ("gateway.log.1", "downloader.log.1", "orchestrator.log")
    )
    for path in (new_log, old_log):
        path.write_text("moved aside\n")
    for path in (old_log, kept):
        os.utime(path, (time.time() - 25 * 3600,) * 2)

    async def cleanup(**query: Any) -> Any:
        return (await http.post("/admin/cleanup", params={"max_age_hours": 24} | query)).json()

    counted = await cleanup(deep=True, dry_run=True)
    assert old_log.exists()
    shallow = await cleanup()
    assert old_log.exists()
    deep = await cleanup(deep=True)

    assert (counted["logs_cleaned"], counted["log_files_removed"]) == (False, 1)
    assert (shallow["logs_cleaned"], shallow["jobs_removed"]) == (False, 1)
    assert (deep["logs_cleaned"], deep["log_files_removed"], deep["jobs_removed"]) == (True, 1, 0)
    assert (await http.get(f"/jobs/{young}")).status_code == 200
    assert (await http.get(f"/jobs/{old}")).status_code == 404
    assert (new_log.exists(), old_log.exists(), kept.exists()) == (True, False, True)
    new_log.unlink()


def program() -> str:
    """The polling program; the documents' own where they are."""
    copy = (CONTRACT / "polling.txt").read_text()
    if folder := os.environ.get("YTC_SEEDS"):
        texts = [path.read_text() for path in Path(folder).iterdir() if path.is_file()]
        assert any(copy in text for text in texts), "our copy differs"
    return copy


async def _polled(http: httpx2.AsyncClient, folder: Path, url: str) -> asyncio.subprocess.Process:
    """The program as it is, but for the address of the system and that of the recording."""
    (folder / "httpx.py").write_text(HTTPX)
    text = program()
    assert text.count("http://localhost:8000") == 2
    text = text.replace("http://localhost:8000", str(http.base_url).rstrip("/"))
    text = text.replace("https://www.youtube.com/watch?v=dQw4w9WgXcQ", url)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", text),
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=asyncio.subprocess.PIPE,
    )


async def _output(running: asyncio.subprocess.Process) -> list[str]:
    try:
        output, _ = await asyncio.wait_for(running.communicate(), 240)
    finally:
        if running.returncode is None:
            running.kill()
    assert running.returncode == 0
    return output.decode().splitlines()


async def test_the_polling_program_prints_the_text_of_a_completed_job(
    http: httpx2.AsyncClient, tmp_path: Path, spoken_url: str
) -> None:
    *_, last, text, segments = await _output(await _polled(http, tmp_path, spoken_url))

    assert last == "Status: completed, Progress: 100.0%"
    assert "weather" in text
    assert segments.startswith("Segments: ")


async def test_the_polling_program_ends_with_a_failed_job(
    http: httpx2.AsyncClient, tmp_path: Path, site: Site
) -> None:
    running = await _polled(http, tmp_path, f"{site.url}/files/nothing-here.ogg")

    assert (await _output(running))[-1].startswith("Status: failed, ")


async def test_the_polling_program_ends_with_a_cancelled_job(
    http: httpx2.AsyncClient, tmp_path: Path, site: Site
) -> None:
    url = f"{site.url}/held/sample.ogg?{new_id()}"
    jobs: list[str] = []

    async def submitted() -> bool:
        found = (await http.get("/jobs", params={"q": url})).json()["jobs"]
        jobs[:] = [one["job_id"] for one in found]
        return bool(jobs)

    running = await _polled(http, tmp_path, url)
    try:
        await until(submitted)
        stopped = (await http.post(f"/jobs/{jobs[0]}/cancel", params={"note": "enough"})).json()
    finally:
        lines = await _output(running)
    job = (await http.get(f"/jobs/{jobs[0]}")).json()

    assert lines[-1].startswith("Status: failed, ")
    assert stopped["status"] == "cancelled"
    assert (job["state"], job["status"], job["error"]) == (
        "cancelled",
        "failed",
        "cancelled: enough",
    )
