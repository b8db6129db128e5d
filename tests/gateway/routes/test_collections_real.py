"""Collections over HTTP on the real mesh."""

from typing import Any

import httpx2
import pytest

from tests.support.http import all_events, events, ids
from tests.support.site import Site


@pytest.fixture(scope="module")
def body(site: Site) -> dict[str, Any]:
    """Two recordings; the second does not exist."""
    addresses = [f"{site.url}/files/short.ogg", f"{site.url}/files/not-there.ogg"]
    return {"addresses": addresses, "title": "Two of them", "correlation_id": "thread-12"}


async def test_a_collection_is_followed_to_its_end_read_listed_and_deleted(
    http: httpx2.AsyncClient, body: dict[str, Any]
) -> None:
    accepted = await http.post("/collections", json=body)
    path = accepted.headers["Location"]
    received = await all_events(http, path)
    found = (await http.get(path)).json()

    assert accepted.status_code == 202
    assert [received[0].name, received[-1].name] == ["collection", "finished"]
    assert ids(received) == sorted(ids(received))
    last = {one.data["number"]: one.data for one in received if one.name == "member"}
    assert [last[number]["state"] for number in (1, 2)] == ["completed", "failed"]
    assert last[2]["failure"]["reason"] == "VIDEO_NOT_FOUND"
    ended = received[-1].data
    assert (ended["state"], ended["settled"], ended["member_count"]) == ("partial", True, 2)
    assert found["members"] == [last[1], last[2]]
    assert found["counts"] == ended["counts"]
    job = (await http.get(f"/jobs/{last[1]['job_id']}")).json()
    assert (job["state"], job["correlation_id"]) == ("succeeded", "thread-12")
    position = ids(received)[-1]
    again = await http.get(f"{path}/events", headers={"Last-Event-ID": str(position)})
    assert again.status_code == 204
    listed = (await http.get("/collections", params={"limit": 200})).json()["collections"]
    assert found["collection_id"] in [one["collection_id"] for one in listed]
    removed = await http.delete(path)
    assert removed.json()["jobs_removed"] == 2
    assert (await http.get(path)).status_code == 404


async def test_a_source_is_listed_and_its_recordings_are_transcribed(
    http: httpx2.AsyncClient, site: Site
) -> None:
    items = "".join(
        f'<item><title>{name}</title><enclosure url="{site.url}/files/{name}" type="audio/ogg"/>'
        "</item>"
        for name in ("short.ogg", "portuguese.ogg")
    )
    feed = f'<rss version="2.0"><channel><title>Show</title>{items}</channel></rss>'
    source = site.page("/feed.xml", feed.encode(), "application/rss+xml")
    body = {"sources": [source], "max_in_flight": 2, "timeout": 120, "title": "A show"}

    path = (await http.post("/collections", json=body)).headers["Location"]
    ended = (await all_events(http, path))[-1].data

    assert (ended["state"], ended["counts"]["completed"]) == ("complete", 2)
    [listing] = ended["listings"]
    assert listing == {"source": source, "complete": True, "found": 2, "failure": None}
    await http.delete(path)


async def test_a_request_id_sent_twice_creates_one_collection(
    http: httpx2.AsyncClient, body: dict[str, Any]
) -> None:
    once = body | {"request_id": "only once, please"}
    first, second = [await http.post("/collections", json=once) for _ in range(2)]

    assert first.headers["Location"] == second.headers["Location"]
    await http.delete(first.headers["Location"])


async def test_a_cancelled_collection_stops_its_members_and_ends_its_streams(
    http: httpx2.AsyncClient, site: Site
) -> None:
    site.release.clear()
    try:
        held = {"addresses": [f"{site.url}/held/sample.ogg"], "force": True}
        path = (await http.post("/collections", json=held)).headers["Location"]
        async with http.stream("GET", f"{path}/events") as answer:
            stream = events(answer)
            async for one in stream:
                if one.name == "member" and one.data["state"] == "running":
                    break
            stopped = (await http.post(f"{path}/cancel", params={"note": "enough"})).json()
            rest = [one async for one in stream]
    finally:
        site.release.set()

    assert (stopped["state"], stopped["cancel_note"]) == ("cancelled", "enough")
    assert (rest[-1].name, rest[-1].data["state"]) == ("finished", "cancelled")
    assert rest[-1].data["counts"]["cancelled"] == 1
    await http.delete(path)


@pytest.mark.parametrize("body", [{}, {"sources": ["ftp://x"]}, {"period": "2025", "sources": []}])
async def test_an_impossible_collection_is_rejected(
    http: httpx2.AsyncClient, body: dict[str, Any]
) -> None:
    answer = await http.post("/collections", json=body)

    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/problem+json"
