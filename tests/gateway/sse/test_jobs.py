"""Event streams: whole, resumed, cut off, unread, abandoned."""

import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import psutil
import pytest

from tests.client import Client
from tests.conftest import RealMesh
from tests.gateway.http import Told, following, ids, running_gateway, settled, story
from tests.gateway.stand_in import Endless, serving
from tests.polling import still, until
from tests.site import Site


@pytest.fixture
async def held(http: httpx2.AsyncClient, site: Site) -> AsyncIterator[str]:
    """A job whose download stands still until the site is told to go on."""
    site.release.clear()
    order = {"youtube_url": f"{site.url}/held/sample.ogg", "force": True}
    job_id = (await http.post("/pipeline", json=order)).json()["job_id"]
    yield job_id
    site.release.set()
    await http.delete(f"/jobs/{job_id}")


async def test_a_stream_tells_the_whole_story_in_order_and_ends(
    http: httpx2.AsyncClient, heard: dict[str, Any], client: Client
) -> None:
    told = await story(http, f"/jobs/{heard['job_id']}")

    stored = [seen.sequence async for seen in client.watch(heard["job_id"]) if seen.sequence]
    assert ids(told) == stored
    assert [told[0].name, told[-1].name] == ["job", "finished"]
    assert [one.data["text"] for one in told if one.name == "segment"] == [
        segment["text"] for segment in heard["transcription_segments"]
    ]
    assert told[-1].data["transcription_text"] == heard["transcription_text"]
    assert "transcription_segments" not in told[-1].data
    others = [one.data for one in told if one.name == "story"]
    assert {one["type"] for one in others} >= {
        "job_accepted",
        "attempt_started",
        "execution_result",
    }
    assert all(one["at"].endswith("Z") for one in others)
    stages = [one.data for one in told if one.name == "stage"]
    assert stages[-1].items() >= {"stage": "transcription", "status": "completed"}.items()


async def test_who_has_heard_the_end_is_told_to_stop_asking(
    http: httpx2.AsyncClient, heard: dict[str, Any]
) -> None:
    path = f"/jobs/{heard['job_id']}"
    last = str(ids(await story(http, path))[-1])

    by_header = await http.get(f"{path}/events", headers={"Last-Event-ID": last})
    by_query = await http.get(f"{path}/events", params={"last_event_id": last})

    assert (by_header.status_code, by_query.status_code) == (204, 204)


async def test_a_client_that_comes_back_misses_nothing_and_hears_nothing_twice(
    http: httpx2.AsyncClient, held: str, site: Site, client: Client
) -> None:
    before: list[Told] = []
    async with following(http, f"/jobs/{held}") as told:
        async for one in told:
            before.append(one)
            if one.name == "stage":
                break
    site.release.set()
    after = await story(http, f"/jobs/{held}", ids(before)[-1])

    stored = [seen.sequence async for seen in client.watch(held) if seen.sequence]
    assert ids(before) + ids(after) == stored
    assert after[-1].name == "finished"


async def test_a_stream_outlives_the_orchestrator(
    http: httpx2.AsyncClient, held: str, site: Site, real_mesh: RealMesh, client: Client
) -> None:
    told: list[Told] = []
    async with following(http, f"/jobs/{held}") as updates:
        async for one in updates:
            told.append(one)
            if one.name == "stage" and not site.release.is_set():
                _kill(real_mesh, "orchestrator")
                site.release.set()

    stored = [seen.sequence async for seen in client.watch(held) if seen.sequence]
    assert ids(told) == stored
    assert told[-1].name == "finished"
    assert told[-1].data["status"] == "completed"
    assert [one.data["attempt"] for one in told if one.data.get("type") == "attempt_started"] == [
        1,
        2,
    ]


def _kill(mesh: RealMesh, service: str) -> None:
    for process in psutil.Process(mesh.pid).children(recursive=True):
        line = process.cmdline()
        if line[-2:] == ["-m", service] and "--grace" not in line:
            process.send_signal(signal.SIGKILL)


async def test_live_figures_come_while_the_job_runs(
    http: httpx2.AsyncClient, held: str, site: Site
) -> None:
    async with following(http, f"/jobs/{held}") as told:
        async for one in told:
            if one.name == "progress":
                site.release.set()
                if one.data["stages"]["download"]["done"]:
                    break

    assert one.id is None
    assert 0 <= one.data["overall_progress"] <= 100
    assert one.data["status"] in ("downloading", "normalizing", "transcribing")
    assert one.data["stages"]["download"]["unit"] == "bytes"


async def test_a_cancelled_job_ends_its_streams(http: httpx2.AsyncClient, held: str) -> None:
    async with following(http, f"/jobs/{held}") as told:
        first = await anext(told)
        cancelled = (await http.post(f"/jobs/{held}/cancel", params={"note": "enough"})).json()
        rest = [one async for one in told]

    assert first.data["can_cancel"]
    assert (cancelled["status"], cancelled["cancel_note"]) == ("cancelled", "enough")
    assert (rest[-1].name, rest[-1].data["status"]) == ("finished", "cancelled")


async def test_the_end_of_an_earlier_life_is_no_end(http: httpx2.AsyncClient, site: Site) -> None:
    page = site.page("/later.ogg", b"", "text/plain", status=404)
    job_id = (await http.post("/pipeline", json={"youtube_url": page})).json()["job_id"]
    await settled(http, job_id)
    body = (site.folder / "short.ogg").read_bytes()
    site.page("/later.ogg", body, "audio/ogg")
    retried = await http.post(f"/jobs/{job_id}/retry")

    told = await story(http, f"/jobs/{job_id}")

    assert (retried.status_code, retried.json()["job_id"]) == (202, job_id)
    assert [one.data["state"] for one in told if one.data.get("type") == "job_finished"] == [
        "failed"
    ]
    assert [one.data["status"] for one in told if one.name == "finished"] == ["completed"]
    assert ids(told) == sorted(set(ids(told)))


async def test_who_does_not_read_stops_the_orchestrator_from_sending() -> None:
    endless = Endless(events=2000)
    async with (
        serving(endless) as address,
        _gateway(address) as http,
        http.stream("GET", "/jobs/one/events") as answer,
    ):
        await until(lambda: endless.sent > 0)
        unread = await still(lambda: endless.sent)
        told = [line async for line in answer.aiter_lines() if line.startswith("id: ")]

    assert unread < 2000
    assert told == [f"id: {number}" for number in range(1, 2001)]


async def test_a_client_that_goes_away_ends_the_watch() -> None:
    endless = Endless(events=1, hold=True)
    async with serving(endless) as address, _gateway(address) as http:
        async with http.stream("GET", "/jobs/one/events") as answer:
            lines = answer.aiter_lines()
            while "id: 1" not in await anext(lines):
                pass
            assert endless.watching == 1
        await until(lambda: not endless.watching)


async def test_the_number_of_streams_is_bounded() -> None:
    endless = Endless(events=1, hold=True)
    async with (
        serving(endless) as address,
        _gateway(address, max_streams=1) as http,
        http.stream("GET", "/jobs/one/events") as answer,
    ):
        lines = answer.aiter_lines()  # let go of, it would close the stream
        await anext(lines)
        second = await http.get("/jobs/one/events")

    assert second.status_code == 503
    assert second.headers["Retry-After"]


async def test_a_client_from_before_may_wait_for_the_orchestrator() -> None:
    """An error would make a browser give up for good."""
    endless = Endless(events=5)
    async with serving(endless) as address:
        pass
    async with _gateway(address) as http:
        new = await http.get("/jobs/one/events")
        async with (
            http.stream("GET", "/jobs/one/events", headers={"Last-Event-ID": "2"}) as back,
            serving(endless, address),
        ):
            told = [line async for line in back.aiter_lines() if line.startswith("id: ")]

    assert new.status_code == 503
    assert told == ["id: 3", "id: 4", "id: 5"]


@pytest.mark.parametrize("place", ["-1", "x", "1" * 30, "٣"])
async def test_a_place_that_is_none_of_ours_is_refused(
    http: httpx2.AsyncClient, heard: dict[str, Any], place: str
) -> None:
    headers = {b"Last-Event-ID": place.encode()}

    answer = await http.get(f"/jobs/{heard['job_id']}/events", headers=headers)

    assert answer.status_code == 400
    assert answer.json()["field"] == "Last-Event-ID"


def _gateway(address: str, **settings: Any) -> Any:
    return running_gateway(orchestrator=address, **settings)
