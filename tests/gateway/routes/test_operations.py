"""Dead letters, retries, metrics and factory reset over HTTP."""

import asyncio
import re
from typing import Any

import httpx2
import nats
import pytest

from tests.conftest import DATA, RealMesh
from tests.support.client import Client
from tests.support.contract import misfits, shapes_of
from tests.support.http import all_events, ended_job
from tests.support.site import Site


@pytest.fixture
async def failed_job(http: httpx2.AsyncClient, site: Site) -> dict[str, Any]:
    """A job that failed permanently."""
    order = {"youtube_url": f"{site.url}/files/gone.ogg", "force": True}
    job_id = (await http.post("/pipeline", json=order)).json()["job_id"]
    await all_events(http, f"/jobs/{job_id}")  # the final event follows the dead letter
    return await ended_job(http, job_id)


async def test_a_dead_letter_names_its_job_and_the_reason(
    http: httpx2.AsyncClient, failed_job: dict[str, Any]
) -> None:
    page = (await http.get("/dead-letters", params={"limit": 1})).json()
    matching = (await http.get("/dead-letters", params={"reason": "VIDEO_NOT_FOUND"})).json()
    others = (await http.get("/dead-letters", params={"reason": "NO_AUDIO"})).json()

    [letter] = page["dead_letters"]
    assert letter["job_id"] == failed_job["job_id"]
    assert letter["youtube_url"] == failed_job["youtube_url"]
    assert (letter["reason"], letter["stage"]) == ("VIDEO_NOT_FOUND", "download")
    assert not letter["retryable"]
    assert page["total"] >= matching["total"] >= 1
    assert others == {"total": 0, "next_page_token": "", "dead_letters": []}


async def test_a_replayed_dead_letter_runs_the_same_job_again(
    http: httpx2.AsyncClient, failed_job: dict[str, Any]
) -> None:
    replayed = await http.post(f"/dead-letters/{failed_job['job_id']}/replay")
    again = await ended_job(http, failed_job["job_id"])

    assert replayed.status_code == 202
    assert replayed.json()["job_id"] == failed_job["job_id"]
    assert again["attempt"] > failed_job["attempt"]


async def test_dead_letters_are_deleted_one_by_one_or_by_reason_and_age(
    http: httpx2.AsyncClient, failed_job: dict[str, Any]
) -> None:
    path = f"/dead-letters/{failed_job['job_id']}"
    same = {"reason": "VIDEO_NOT_FOUND"}

    counted = (await http.delete("/dead-letters", params={**same, "dry_run": "true"})).json()
    old = (await http.delete("/dead-letters", params={"older_than_hours": "1"})).json()
    one = (await http.delete(path)).json()
    twice = await http.delete(path)
    rest = (await http.delete("/dead-letters", params=same)).json()

    assert counted["dead_letters_removed"] >= 1
    assert old["dead_letters_removed"] == 0
    assert one == {"dead_letters_removed": 1, "dry_run": False}
    assert twice.status_code == 404
    assert rest["dead_letters_removed"] == counted["dead_letters_removed"] - 1


async def test_a_dead_letter_of_an_event_is_listed_replayed_and_deleted(
    http: httpx2.AsyncClient, real_mesh: RealMesh
) -> None:
    address = re.search(r"nats (127\.0\.0\.1:\d+)", (real_mesh.data_dir / "up.log").read_text())
    assert address
    key = real_mesh.data_dir / "nats" / "credentials" / "producer.nk"
    publisher = await nats.connect(f"nats://{address[1]}", nkeys_seed=str(key))
    await publisher.publish("ytc.in.iniciar_coleta", b"nonsense")
    await publisher.close()

    async def letters(*known: str) -> list[dict[str, Any]]:
        malformed = {"reason": "EVENT_MALFORMED"}
        async with asyncio.timeout(60):
            while True:
                page = (await http.get("/dead-letters", params=malformed)).json()
                found = [one for one in page["dead_letters"] if one["letter_id"] not in known]
                if found:
                    return found
                await asyncio.sleep(0.1)

    [letter] = await letters()
    replayed = await http.post(f"/dead-letters/{letter['letter_id']}/replay")
    [again] = await letters(letter["letter_id"])
    removed = await http.delete(f"/dead-letters/{again['letter_id']}")

    assert (letter["kind"], letter["job_id"]) == ("event", "")
    assert letter["subject"] == "ytc.in.iniciar_coleta"
    assert replayed.status_code == 202
    assert replayed.json() == {"letter_id": letter["letter_id"], "sent": True}
    assert removed.json() == {"dead_letters_removed": 1, "dry_run": False}


async def test_retrying_a_failed_job_without_dead_letter_creates_a_new_job(
    http: httpx2.AsyncClient, failed_job: dict[str, Any]
) -> None:
    await http.delete(f"/dead-letters/{failed_job['job_id']}")

    retried = await http.post(f"/jobs/{failed_job['job_id']}/retry")

    assert retried.status_code == 202
    assert retried.json()["job_id"] != failed_job["job_id"]
    assert retried.json()["youtube_url"] == failed_job["youtube_url"]


async def test_retrying_a_finished_upload_transcribes_it_again_as_a_new_job(
    http: httpx2.AsyncClient, finished_job: dict[str, Any], client: Client
) -> None:
    retried = (await http.post(f"/jobs/{finished_job['job_id']}/retry")).json()
    again = await ended_job(http, retried["job_id"])

    assert retried["job_id"] != finished_job["job_id"]
    assert again["transcription_text"] == finished_job["transcription_text"]
    assert again["cached_from_job_id"] is None
    assert again["file_name"] == finished_job["file_name"]


async def test_a_running_job_cannot_be_retried(http: httpx2.AsyncClient, site: Site) -> None:
    site.release.clear()
    order = {"youtube_url": f"{site.url}/held/sample.ogg", "force": True}
    job_id = (await http.post("/pipeline", json=order)).json()["job_id"]

    refused = await http.post(f"/jobs/{job_id}/retry")
    deleted = (await http.delete(f"/jobs/{job_id}")).json()
    site.release.set()

    assert (refused.status_code, refused.json()["reason"]) == (409, "JOB_NOT_ENDED")
    assert deleted["job_id"] == job_id
    assert deleted["events_removed"] >= 1
    assert (await http.get(f"/jobs/{job_id}")).status_code == 404


async def test_a_request_id_sent_twice_creates_one_job(
    http: httpx2.AsyncClient, spoken_url: str
) -> None:
    order = {"youtube_url": spoken_url, "request_id": "the same request"}

    first, second = [(await http.post("/pipeline", json=order)).json() for _ in range(2)]

    assert first["job_id"] == second["job_id"]


async def test_metrics_are_labelled_by_route_not_by_path(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    await http.get(f"/jobs/{finished_job['job_id']}")

    text = (await http.get("/metrics")).text

    assert 'ytcaption_http_requests_total{method="GET",route="/jobs/{job_id}",status="200"}' in text
    assert finished_job["job_id"] not in text


async def test_a_factory_reset_deletes_everything_and_reports_each_service(
    http: httpx2.AsyncClient, finished_job: dict[str, Any], site: Site
) -> None:
    confirmation = {"confirmation": "ERASE EVERYTHING"}
    body = {"addresses": [f"{site.url}/files/gone.ogg"]}
    accepted = await http.post("/collections", json=body)
    await http.get(f"{accepted.headers['Location']}/events")  # ends when it is settled

    counted = (
        await http.post("/admin/factory-reset", json={**confirmation, "dry_run": True})
    ).json()
    jobs = (await http.get("/jobs")).json()["total"]
    listed = (await http.get("/collections", params={"limit": 200})).json()["collections"]
    done = (await http.post("/admin/factory-reset", json=confirmation)).json()

    assert counted["orchestrator"]["jobs_removed"] == jobs >= 1
    assert done["orchestrator"]["jobs_removed"] == jobs
    assert counted["orchestrator"]["collections_removed"] == len(listed) >= 1
    assert done["orchestrator"]["collections_removed"] == len(listed)
    example = shapes_of((DATA / "contract" / "http.md").read_text())[
        "/admin/factory-reset", "Response"
    ]
    assert misfits(done, example) == []
    assert done["orchestrator"]["logs_cleaned"] is True
    assert [done[name] for name in ("message", "warning")] == [
        example[name] for name in ("message", "warning")
    ]
    for service in done["microservices"].values():
        assert service["status"] == "success"
        assert service["data"].keys() == {"files_removed", "tasks_purged"}
    assert (await http.get("/jobs")).json() == {"total": 0, "next_page_token": "", "jobs": []}
