"""Event streams of lists: the page at once, again when it changes, through outages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.conftest import DATA
from tests.support.busy_orchestrator import WatchedList, serving
from tests.support.controlled_collections import ControlledCollection, serving_collections
from tests.support.http import ServerSentEvent, events, running_gateway
from tests.support.polling import until
from ytcaption.v1 import collection_service_pb2 as collection_pb


class Follower:
    """Reads the event stream of a list."""

    def __init__(self, stream: AsyncIterator[ServerSentEvent]) -> None:
        self._stream = stream

    async def next(self) -> Any:
        return (await self.event()).data

    async def event(self) -> ServerSentEvent:
        async with asyncio.timeout(60):
            return await anext(self._stream)


@asynccontextmanager
async def following(http: httpx2.AsyncClient, path: str, **query: Any) -> AsyncIterator[Follower]:
    async with http.stream("GET", path, params=query) as answer:
        assert answer.status_code == 200, answer.status_code
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Follower(events(answer))


async def test_the_list_of_jobs_shows_a_job_appear_change_and_disappear(
    http: httpx2.AsyncClient,
) -> None:
    name = "a live list.ogg"
    async with following(http, "/jobs/events", q=name, limit=3) as follower:
        assert await follower.next() == {"total": 0, "next_page_token": "", "jobs": []}
        body, query = (DATA / "short.ogg").read_bytes(), {"file_name": name, "force": "true"}
        job_id = (await http.post("/uploads", params=query, content=body)).json()["job_id"]
        found = await follower.next()
        assert [job["job_id"] for job in found["jobs"]] == [job_id]
        while found["jobs"][0]["state"] != "succeeded":
            found = await follower.next()
        await http.delete(f"/jobs/{job_id}")
        while found["jobs"]:
            found = await follower.next()


async def test_an_event_has_the_body_of_the_list_route(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    query = {"q": finished_job["job_id"], "state": ["succeeded", "failed"]}
    body = (await http.get("/jobs", params=query)).json()
    async with following(http, "/jobs/events", **query) as live:
        event = await live.event()

    assert (event.name, event.id, event.data) == ("jobs", None, body)
    assert [job["job_id"] for job in body["jobs"]] == [finished_job["job_id"]]


async def test_an_event_of_collections_has_the_body_of_the_list_route() -> None:
    collection = ControlledCollection()
    query: dict[str, Any] = {"limit": 7, "page_token": "next"}
    async with (
        serving_collections(collection) as address,
        running_gateway(orchestrator=address) as http,
        following(http, "/collections/events", **query) as live,
    ):
        body = (await http.get("/collections", params=query)).json()
        event = await live.event()

    assert (event.name, event.id, event.data) == ("collections", None, body)
    watched, listed = collection.requests
    page: dict[str, Any] = {"page_size": 7, "page_token": "next"}
    assert watched == collection_pb.WatchCollectionsRequest(**page)
    assert listed == collection_pb.ListCollectionsRequest(**page)


async def test_a_list_survives_a_restart_of_the_orchestrator_and_is_resent_only_if_changed() -> (
    None
):
    listing = WatchedList()
    async with serving(listing) as address:
        gateway = running_gateway(orchestrator=address)
        http = await gateway.__aenter__()
        live = following(http, "/jobs/events")
        follower = await live.__aenter__()
        assert (await follower.next())["total"] == 0
    async with serving(listing, address):
        await until(lambda: listing.watches >= 2)
        await listing.show(1)
        assert (await follower.next())["total"] == 1
        await live.__aexit__(None, None, None)
        await gateway.__aexit__(None, None, None)


async def test_a_client_that_does_not_read_gets_only_the_newest_page() -> None:
    listing = WatchedList(jobs=200)
    async with (
        serving(listing) as address,
        running_gateway(orchestrator=address) as http,
        following(http, "/jobs/events", limit=200) as follower,
    ):
        first = await follower.next()
        for total in range(1, 301):
            await listing.show(total)
        seen = [first["total"]]
        while seen[-1] < 300:
            seen.append((await follower.next())["total"])

    assert seen == sorted(set(seen))
    assert len(seen) < 300


async def test_a_client_that_disconnects_ends_the_watch() -> None:
    listing = WatchedList()
    async with serving(listing) as address, running_gateway(orchestrator=address) as http:
        async with following(http, "/jobs/events") as follower:
            await follower.next()
            assert listing.watching == 1
        await until(lambda: not listing.watching)


async def test_lists_count_towards_the_limit_of_streams() -> None:
    async with (
        serving(WatchedList()) as address,
        running_gateway(orchestrator=address, max_streams=1) as http,
        following(http, "/jobs/events") as follower,
    ):
        await follower.next()
        second = await http.get("/jobs/events")

    assert second.status_code == 503
    assert second.headers["Retry-After"]


@pytest.mark.parametrize("path", ["/jobs/events", "/collections/events"])
async def test_without_an_orchestrator_a_list_stream_is_rejected_with_the_reason(path: str) -> None:
    async with running_gateway(orchestrator="127.0.0.1:9") as http:
        refused = await http.get(path)

    assert refused.status_code == 503
    assert refused.json()["reason"] == "STAGE_UNAVAILABLE"


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "state=lost", "q=" + "x" * 201])
async def test_a_list_stream_rejects_the_same_parameters_as_the_list(
    http: httpx2.AsyncClient, query: str
) -> None:
    listed = await http.get(f"/jobs?{query}")
    live = await http.get(f"/jobs/events?{query}")

    assert live.status_code == listed.status_code == 422
    assert live.json()["field"] == listed.json()["field"]
