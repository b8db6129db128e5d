"""Event streams of jobs: order, resumption, backpressure, outages, disconnects."""

import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import psutil
import pytest

from gateway.sse import stream
from tests.conftest import RealMesh
from tests.support.busy_orchestrator import BusyJob, serving
from tests.support.client import Client
from tests.support.http import (
    ServerSentEvent,
    all_events,
    ended_job,
    following,
    ids,
    running_gateway,
)
from tests.support.polling import still, until
from tests.support.processes import command_line
from tests.support.site import Site


@pytest.fixture
async def held_job(http: httpx2.AsyncClient, site: Site) -> AsyncIterator[str]:
    """A job whose download blocks until `site.release` is set."""
    site.release.clear()
    order = {"youtube_url": f"{site.url}/held/sample.ogg", "force": True}
    job_id = (await http.post("/pipeline", json=order)).json()["job_id"]
    yield job_id
    site.release.set()
    await http.delete(f"/jobs/{job_id}")


async def test_a_stream_sends_the_whole_event_log_in_order_and_ends(
    http: httpx2.AsyncClient, finished_job: dict[str, Any], client: Client
) -> None:
    received = await all_events(http, f"/jobs/{finished_job['job_id']}")

    stored = [
        update.sequence async for update in client.watch(finished_job["job_id"]) if update.sequence
    ]
    assert ids(received) == stored
    assert [received[0].name, received[-1].name] == ["job", "finished"]
    assert [one.data["text"] for one in received if one.name == "segment"] == [
        segment["text"] for segment in finished_job["transcription_segments"]
    ]
    assert received[-1].data["transcription_text"] == finished_job["transcription_text"]
    assert "transcription_segments" not in received[-1].data
    others = [one.data for one in received if one.name == "story"]
    assert {one["type"] for one in others} >= {
        "job_accepted",
        "attempt_started",
        "execution_result",
    }
    assert all(one["at"].endswith("Z") for one in others)
    stages = [one.data for one in received if one.name == "stage"]
    assert stages[-1].items() >= {"stage": "transcription", "status": "completed"}.items()


async def test_a_client_that_has_the_final_event_gets_204(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    path = f"/jobs/{finished_job['job_id']}"
    last = str(ids(await all_events(http, path))[-1])

    by_header = await http.get(f"{path}/events", headers={"Last-Event-ID": last})
    by_query = await http.get(f"{path}/events", params={"last_event_id": last})

    assert (by_header.status_code, by_query.status_code) == (204, 204)


async def test_a_resuming_client_gets_every_event_exactly_once(
    http: httpx2.AsyncClient, held_job: str, site: Site, client: Client
) -> None:
    before: list[ServerSentEvent] = []
    async with following(http, f"/jobs/{held_job}") as stream:
        async for one in stream:
            before.append(one)
            if one.name == "stage":
                break
    site.release.set()
    after = await all_events(http, f"/jobs/{held_job}", ids(before)[-1])

    stored = [update.sequence async for update in client.watch(held_job) if update.sequence]
    assert ids(before) + ids(after) == stored
    assert after[-1].name == "finished"


async def test_a_stream_survives_a_crash_of_the_orchestrator(
    http: httpx2.AsyncClient, held_job: str, site: Site, real_mesh: RealMesh, client: Client
) -> None:
    received: list[ServerSentEvent] = []
    async with following(http, f"/jobs/{held_job}") as stream:
        async for one in stream:
            received.append(one)
            if one.name == "stage" and not site.release.is_set():
                _kill(real_mesh, "orchestrator")
                site.release.set()

    stored = [update.sequence async for update in client.watch(held_job) if update.sequence]
    assert ids(received) == stored
    assert received[-1].name == "finished"
    assert received[-1].data["status"] == "completed"
    assert [
        one.data["attempt"] for one in received if one.data.get("type") == "attempt_started"
    ] == [
        1,
        2,
    ]


def _kill(mesh: RealMesh, service: str) -> None:
    for process in psutil.Process(mesh.pid).children(recursive=True):
        line = command_line(process)
        if line[-2:] == ["-m", service] and "--grace" not in line:
            process.send_signal(signal.SIGKILL)


async def test_live_progress_is_sent_while_the_job_runs(
    http: httpx2.AsyncClient, held_job: str, site: Site
) -> None:
    async with following(http, f"/jobs/{held_job}") as stream:
        async for one in stream:
            if one.name == "progress":
                site.release.set()
                if one.data["stages"]["download"]["done"]:
                    break

    assert one.id is None
    assert 0 <= one.data["overall_progress"] <= 100
    assert one.data["status"] in ("downloading", "normalizing", "transcribing")
    assert one.data["stages"]["download"]["unit"] == "bytes"


async def test_a_cancelled_job_ends_its_streams(http: httpx2.AsyncClient, held_job: str) -> None:
    async with following(http, f"/jobs/{held_job}") as stream:
        first = await anext(stream)
        cancelled = (await http.post(f"/jobs/{held_job}/cancel", params={"note": "enough"})).json()
        rest = [one async for one in stream]

    assert first.data["can_cancel"]
    assert (cancelled["status"], cancelled["cancel_note"]) == ("cancelled", "enough")
    assert (rest[-1].name, rest[-1].data["status"]) == ("finished", "cancelled")


async def test_a_replayed_job_ends_its_stream_only_at_its_last_end(
    http: httpx2.AsyncClient, site: Site
) -> None:
    page = site.page("/later.ogg", b"", "text/plain", status=404)
    job_id = (await http.post("/pipeline", json={"youtube_url": page})).json()["job_id"]
    await ended_job(http, job_id)
    body = (site.folder / "short.ogg").read_bytes()
    site.page("/later.ogg", body, "audio/ogg")
    retried = await http.post(f"/jobs/{job_id}/retry")

    received = await all_events(http, f"/jobs/{job_id}")

    assert (retried.status_code, retried.json()["job_id"]) == (202, job_id)
    assert [one.data["state"] for one in received if one.data.get("type") == "job_finished"] == [
        "failed"
    ]
    assert [one.data["status"] for one in received if one.name == "finished"] == ["completed"]
    assert ids(received) == sorted(set(ids(received)))


async def test_a_client_that_does_not_read_stops_the_orchestrator_from_sending() -> None:
    job = BusyJob(events=2000)
    async with (
        serving(job) as address,
        _gateway(address) as http,
        http.stream("GET", "/jobs/one/events") as answer,
    ):
        await until(lambda: job.sent > 0)
        unread = await still(lambda: job.sent)
        received = [line async for line in answer.aiter_lines() if line.startswith("id: ")]

    assert unread < 2000
    assert received == [f"id: {number}" for number in range(1, 2001)]


async def test_a_client_that_disconnects_ends_the_watch() -> None:
    job = BusyJob(events=1, hold=True)
    async with serving(job) as address, _gateway(address) as http:
        async with http.stream("GET", "/jobs/one/events") as answer:
            lines = answer.aiter_lines()
            while "id: 1" not in await anext(lines):
                pass
            assert job.watching == 1
        await until(lambda: not job.watching)


async def test_a_client_that_disconnects_without_reading_ends_the_watch() -> None:
    job = BusyJob(events=2000)
    async with serving(job) as address, _gateway(address) as http:
        async with http.stream("GET", "/jobs/one/events"):
            await until(lambda: job.sent > 0)
            await still(lambda: job.sent)
            assert job.watching == 1
        await until(lambda: not job.watching)


async def test_a_quiet_stream_gets_heartbeats_between_its_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.05)
    job = BusyJob(events=1, hold=True)
    async with (
        serving(job) as address,
        _gateway(address) as http,
        http.stream("GET", "/jobs/one/events") as answer,
    ):
        received = [line async for line in _until_heartbeats(answer, 3)]

    assert "id: 1" in received


async def _until_heartbeats(answer: httpx2.Response, count: int) -> AsyncIterator[str]:
    async for line in answer.aiter_lines():
        yield line
        count -= line == stream.HEARTBEAT.decode().strip()
        if not count:
            return


async def test_the_number_of_streams_is_bounded() -> None:
    job = BusyJob(events=1, hold=True)
    async with (
        serving(job) as address,
        _gateway(address, max_streams=1) as http,
        http.stream("GET", "/jobs/one/events") as answer,
    ):
        lines = answer.aiter_lines()  # kept: garbage collection would close the stream
        await anext(lines)
        second = await http.get("/jobs/one/events")

    assert second.status_code == 503
    assert second.headers["Retry-After"]


async def test_a_resuming_client_waits_for_the_orchestrator() -> None:
    """Browsers never reconnect after an error."""
    job = BusyJob(events=5)
    async with serving(job) as address:
        pass
    async with _gateway(address) as http:
        fresh = await http.get("/jobs/one/events")
        async with (
            http.stream("GET", "/jobs/one/events", headers={"Last-Event-ID": "2"}) as resumed,
            serving(job, address),
        ):
            received = [line async for line in resumed.aiter_lines() if line.startswith("id: ")]

    assert fresh.status_code == 503
    assert received == ["id: 3", "id: 4", "id: 5"]


@pytest.mark.parametrize("event_id", ["-1", "x", "1" * 30, "٣"])
async def test_a_malformed_last_event_id_is_rejected(
    http: httpx2.AsyncClient, finished_job: dict[str, Any], event_id: str
) -> None:
    headers = {b"Last-Event-ID": event_id.encode()}

    answer = await http.get(f"/jobs/{finished_job['job_id']}/events", headers=headers)

    assert answer.status_code == 400
    assert answer.json()["field"] == "Last-Event-ID"


def _gateway(address: str, **settings: Any) -> Any:
    return running_gateway(orchestrator=address, **settings)
