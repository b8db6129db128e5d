"""Collections over HTTP, with a fake orchestrator."""

from typing import Any

import httpx2
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.support.controlled_collections import (
    ID,
    NEXT_PAGE,
    ControlledCollection,
    changed,
    failure,
    member,
)
from ytcaption.v1 import collection_pb2


async def test_every_field_of_the_request_reaches_the_orchestrator(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    body = {
        "sources": ["https://example.test/channel"],
        "addresses": ["https://example.test/1", "https://example.test/2"],
        "language": "pt",
        "timeout": 90.5,
        "max_in_flight": 3,
        "max_members": 40,
        "period": "2025-10",
        "title": "October",
        "request_id": "once",
        "correlation_id": "thread-9",
        "webhook_url": "https://example.test/hook",
        "caller": "a test",
        "priority": "low",
        "force": True,
    }

    answer = await fake_http.post("/collections", json=body)

    request = collection.requests[0]
    assert (answer.status_code, answer.headers["Location"]) == (202, f"/collections/{ID}")
    assert answer.json()["collection_id"] == ID
    same = ("sources", "addresses", "max_in_flight", "max_members", "period", "title")
    for name in (*same, "request_id", "correlation_id", "webhook_url", "caller", "force"):
        assert getattr(request, name) == body[name], name
    assert request.timeout == Duration(seconds=90, nanos=500_000_000)
    assert (request.options.language, request.options.remove_noise) == ("pt", True)
    assert request.priority == 3


async def test_dates_are_passed_on_and_an_omitted_timeout_is_unset(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    body = {"sources": ["x"], "from_date": "2025-10-01", "to_date": "2025-10-31"}

    await fake_http.post("/collections", json=body)

    request = collection.requests[0]
    assert (request.from_date, request.to_date) == ("2025-10-01", "2025-10-31")
    assert not request.HasField("timeout")
    assert request.request_id


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"source": ["x"]}, "source"),
        ({"sources": "x"}, "sources"),
        ({"sources": ["x"] * 21}, "sources"),
        ({"addresses": [""]}, "addresses.0"),
        ({"sources": ["x"], "timeout": 0}, "timeout"),
        ({"sources": ["x"], "max_in_flight": -1}, "max_in_flight"),
        ({"sources": ["x"], "title": "x" * 201}, "title"),
        ({"sources": ["x"], "beam_size": 99}, "beam_size"),
    ],
)
async def test_an_invalid_request_is_rejected_with_its_field(
    fake_http: httpx2.AsyncClient,
    collection: ControlledCollection,
    body: dict[str, Any],
    field: str,
) -> None:
    answer = await fake_http.post("/collections", json=body)

    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert collection.requests == []


async def test_a_collection_has_one_page_of_its_members(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    broken = collection_pb2.Listing(
        source="https://example.test/channel", found=2, failure=failure("BOT_CHECK")
    )
    counts = [collection_pb2.MemberCount(state=collection_pb2.MEMBER_STATE_FAILED, count=2)]
    await collection.publish(
        changed(1, "partial", listings=[broken], counts=counts, late_count=1, member_count=3),
        member(1, "failed", 2, failure=failure("VIDEO_PRIVATE"), duration=Duration(seconds=90)),
        member(2, "completed", 3, progress=1.0, late=True, language="en"),
        member(3, "pending", 4),
    )

    first = (await fake_http.get(f"/collections/{ID}", params={"limit": 2})).json()
    token = first["next_page_token"]
    rest = (
        await fake_http.get(f"/collections/{ID}", params={"limit": 2, "page_token": token})
    ).json()
    bare = (await fake_http.get(f"/collections/{ID}", params={"limit": 0})).json()

    assert (first["state"], first["counts"]["failed"], first["late_count"]) == ("partial", 2, 1)
    assert first["counts"]["completed"] == 0
    assert first["listings"][0]["failure"]["reason"] == "BOT_CHECK"
    one, two = first["members"]
    assert (one["state"], one["failure"]["reason"]) == ("failed", "VIDEO_PRIVATE")
    assert (one["progress"], one["duration_seconds"]) == (None, 90.0)
    assert (two["progress"], two["late"], two["language"]) == (100.0, True, "en")
    assert [found["number"] for found in rest["members"]] == [3]
    assert rest["next_page_token"] == ""
    assert bare["members"] == []


async def test_collections_are_listed_in_pages(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    page = (await fake_http.get("/collections", params={"limit": 7, "page_token": "here"})).json()

    assert [one["collection_id"] for one in page["collections"]] == [ID]
    assert page["next_page_token"] == NEXT_PAGE
    assert (collection.requests[0].page_size, collection.requests[0].page_token) == (7, "here")


async def test_a_collection_can_be_cancelled_and_deleted(fake_http: httpx2.AsyncClient) -> None:
    stopped = await fake_http.post(f"/collections/{ID}/cancel", params={"note": "enough"})
    removed = await fake_http.delete(f"/collections/{ID}")

    assert (stopped.json()["state"], stopped.json()["cancel_note"]) == ("cancelled", "enough")
    assert not stopped.json()["can_cancel"]
    assert removed.json() == {"collection_id": ID, "jobs_removed": 3}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/report"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ],
)
async def test_an_unknown_collection_is_a_404_problem(
    fake_http: httpx2.AsyncClient, method: str, path: str
) -> None:
    answer = await fake_http.request(method, f"/collections/unknown{path}")

    assert answer.status_code == 404
    assert answer.json()["reason"] == "COLLECTION_NOT_FOUND"
    assert answer.headers["Content-Type"] == "application/problem+json"
