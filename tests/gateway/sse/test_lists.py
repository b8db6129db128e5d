"""Live lists: the body of the list at once, again when it has changed, whatever goes away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.conftest import DATA
from tests.gateway.gathering import Gathering, serving_collections
from tests.gateway.http import Told, events, running_gateway
from tests.gateway.stand_in import Listing, serving
from ytcaption.v1 import collection_service_pb2 as collection_pb


class Heard:
    """One who follows a list."""

    def __init__(self, told: AsyncIterator[Told]) -> None:
        self._told = told

    async def next(self) -> Any:
        return (await self.event()).data

    async def event(self) -> Told:
        async with asyncio.timeout(20):
            return await anext(self._told)


@asynccontextmanager
async def following(http: httpx2.AsyncClient, path: str, **query: Any) -> AsyncIterator[Heard]:
    async with http.stream("GET", path, params=query) as answer:
        assert answer.status_code == 200, answer.status_code
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Heard(events(answer))


async def test_a_job_comes_moves_and_goes_on_its_list(http: httpx2.AsyncClient) -> None:
    name = "a live list.ogg"
    async with following(http, "/jobs/events", q=name, limit=3) as heard:
        assert await heard.next() == {"total": 0, "next_page_token": "", "jobs": []}
        body, query = (DATA / "short.ogg").read_bytes(), {"file_name": name, "force": "true"}
        job_id = (await http.post("/uploads", params=query, content=body)).json()["job_id"]
        found = await heard.next()
        assert [job["job_id"] for job in found["jobs"]] == [job_id]
        while found["jobs"][0]["state"] != "succeeded":
            found = await heard.next()
        await http.delete(f"/jobs/{job_id}")
        while found["jobs"]:
            found = await heard.next()


async def test_what_is_told_is_the_body_of_the_list(
    http: httpx2.AsyncClient, heard: dict[str, Any]
) -> None:
    query = {"q": heard["job_id"], "state": ["succeeded", "failed"]}
    body = (await http.get("/jobs", params=query)).json()
    async with following(http, "/jobs/events", **query) as live:
        event = await live.event()

    assert (event.name, event.id, event.data) == ("jobs", None, body)
    assert [job["job_id"] for job in body["jobs"]] == [heard["job_id"]]


async def test_collections_are_told_as_their_list_has_them() -> None:
    gathering = Gathering()
    query: dict[str, Any] = {"limit": 7, "page_token": "next"}
    async with (
        serving_collections(gathering) as address,
        running_gateway(orchestrator=address) as http,
        following(http, "/collections/events", **query) as live,
    ):
        body = (await http.get("/collections", params=query)).json()
        event = await live.event()

    assert (event.name, event.id, event.data) == ("collections", None, body)
    watched, listed = gathering.asked
    asked: dict[str, Any] = {"page_size": 7, "page_token": "next"}
    assert watched == collection_pb.WatchCollectionsRequest(**asked)
    assert listed == collection_pb.ListCollectionsRequest(**asked)


async def test_a_list_outlives_the_orchestrator_and_is_told_again_only_if_it_changed() -> None:
    listing = Listing()
    async with serving(listing) as address:
        gateway = running_gateway(orchestrator=address)
        http = await gateway.__aenter__()
        live = following(http, "/jobs/events")
        heard = await live.__aenter__()
        assert (await heard.next())["total"] == 0
    async with serving(listing, address):
        async with asyncio.timeout(20):
            while listing.watches < 2:  # noqa: ASYNC110 # a server's counter
                await asyncio.sleep(0.02)
        await listing.show(1)
        assert (await heard.next())["total"] == 1
        await live.__aexit__(None, None, None)
        await gateway.__aexit__(None, None, None)


async def test_who_does_not_read_is_told_the_newest_page_and_not_each() -> None:
    listing = Listing(jobs=200)
    async with (
        serving(listing) as address,
        running_gateway(orchestrator=address) as http,
        following(http, "/jobs/events", limit=200) as heard,
    ):
        first = await heard.next()
        for total in range(1, 301):
            await listing.show(total)
        seen = [first["total"]]
        while seen[-1] < 300:
            seen.append((await heard.next())["total"])

    assert seen == sorted(set(seen))
    assert len(seen) < 300


async def test_a_client_that_leaves_ends_the_watch() -> None:
    listing = Listing()
    async with serving(listing) as address, running_gateway(orchestrator=address) as http:
        async with following(http, "/jobs/events") as heard:
            await heard.next()
            assert listing.watching == 1
        async with asyncio.timeout(20):
            while listing.watching:  # noqa: ASYNC110 # a server's counter
                await asyncio.sleep(0.02)


async def test_live_lists_count_among_the_streams() -> None:
    async with (
        serving(Listing()) as address,
        running_gateway(orchestrator=address, max_streams=1) as http,
        following(http, "/jobs/events") as heard,
    ):
        await heard.next()
        second = await http.get("/jobs/events")

    assert second.status_code == 503
    assert second.headers["Retry-After"]


@pytest.mark.parametrize("path", ["/jobs/events", "/collections/events"])
async def test_while_nobody_answers_a_list_is_refused_with_the_reason(path: str) -> None:
    async with running_gateway(orchestrator="127.0.0.1:9") as http:
        refused = await http.get(path)

    assert refused.status_code == 503
    assert refused.json()["reason"] == "STAGE_UNAVAILABLE"


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "state=lost", "q=" + "x" * 201])
async def test_what_is_no_list_is_no_live_list_either(http: httpx2.AsyncClient, query: str) -> None:
    listed = await http.get(f"/jobs?{query}")
    live = await http.get(f"/jobs/events?{query}")

    assert live.status_code == listed.status_code == 422
    assert live.json()["field"] == listed.json()["field"]
