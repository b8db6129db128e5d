"""Collections over HTTP, before an orchestrator that does what it is told."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from google.protobuf.duration_pb2 import Duration

from gateway.mailbox import Mailbox
from tests.gateway.gathering import (
    ID,
    MORE,
    Gathering,
    changed,
    failure,
    member,
    progress,
    serving_collections,
)
from tests.gateway.http import Told, events, ids, running_gateway
from ytcaption.v1 import collection_pb2, media_pb2
from ytcaption.v1 import collection_service_pb2 as pb


@pytest.fixture
async def gathering() -> Gathering:
    return Gathering()


@pytest.fixture
async def http(gathering: Gathering) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        serving_collections(gathering) as address,
        running_gateway(orchestrator=address) as client,
    ):
        yield client


@asynccontextmanager
async def following(
    client: httpx2.AsyncClient, after: int | None = None
) -> AsyncIterator[AsyncIterator[Told]]:
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    async with client.stream("GET", f"/collections/{ID}/events", headers=headers) as answer:
        assert answer.status_code == 200, answer.status_code
        yield events(answer)


async def story(client: httpx2.AsyncClient, after: int | None = None) -> list[Told]:
    async with following(client, after) as told:
        return [one async for one in told]


async def test_what_is_asked_for_reaches_the_orchestrator(
    http: httpx2.AsyncClient, gathering: Gathering
) -> None:
    wish = {
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

    answer = await http.post("/collections", json=wish)

    asked = gathering.asked[0]
    assert (answer.status_code, answer.headers["Location"]) == (202, f"/collections/{ID}")
    assert answer.json()["collection_id"] == ID
    same = ("sources", "addresses", "max_in_flight", "max_members", "period", "title")
    for name in (*same, "request_id", "correlation_id", "webhook_url", "caller", "force"):
        assert getattr(asked, name) == wish[name], name
    assert asked.timeout == Duration(seconds=90, nanos=500_000_000)
    assert (asked.options.language, asked.options.remove_noise) == ("pt", True)
    assert asked.priority == 3


async def test_days_may_stand_for_a_period_and_no_timeout_is_none(
    http: httpx2.AsyncClient, gathering: Gathering
) -> None:
    wish = {"sources": ["x"], "from_date": "2025-10-01", "to_date": "2025-10-31"}

    await http.post("/collections", json=wish)

    asked = gathering.asked[0]
    assert (asked.from_date, asked.to_date) == ("2025-10-01", "2025-10-31")
    assert not asked.HasField("timeout")
    assert asked.request_id


@pytest.mark.parametrize(
    ("wish", "field"),
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
async def test_what_cannot_be_meant_is_refused_with_its_field(
    http: httpx2.AsyncClient, gathering: Gathering, wish: dict[str, Any], field: str
) -> None:
    answer = await http.post("/collections", json=wish)

    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert gathering.asked == []


async def test_a_collection_is_told_with_a_page_of_its_members(
    http: httpx2.AsyncClient, gathering: Gathering
) -> None:
    broken = collection_pb2.Listing(
        source="https://example.test/channel", found=2, failure=failure("BOT_CHECK")
    )
    counts = [collection_pb2.MemberCount(state=collection_pb2.MEMBER_STATE_FAILED, count=2)]
    await gathering.say(
        changed(1, "partial", listings=[broken], counts=counts, late_count=1, member_count=3),
        member(1, "failed", 2, failure=failure("VIDEO_PRIVATE"), duration=Duration(seconds=90)),
        member(2, "completed", 3, progress=1.0, late=True, language="en"),
        member(3, "pending", 4),
    )

    first = (await http.get(f"/collections/{ID}", params={"limit": 2})).json()
    token = first["next_page_token"]
    rest = (await http.get(f"/collections/{ID}", params={"limit": 2, "page_token": token})).json()
    bare = (await http.get(f"/collections/{ID}", params={"limit": 0})).json()

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
    http: httpx2.AsyncClient, gathering: Gathering
) -> None:
    page = (await http.get("/collections", params={"limit": 7, "page_token": "here"})).json()

    assert [one["collection_id"] for one in page["collections"]] == [ID]
    assert page["next_page_token"] == MORE
    assert (gathering.asked[0].page_size, gathering.asked[0].page_token) == (7, "here")


async def test_a_stream_tells_changes_in_order_and_ends_when_all_is_settled(
    http: httpx2.AsyncClient, gathering: Gathering
) -> None:
    await gathering.say(member(1, "running", 3), progress(1, 0.25))
    async with following(http) as told:
        before = [await anext(told) for _ in range(3)]
        await gathering.say(
            member(1, "completed", 4), changed(5, "complete", settled=True, member_count=1)
        )
        after = [one async for one in told]

    assert [one.name for one in before] == ["collection", "member", "progress"]
    assert before[2].data == {"number": 1, "job_id": None, "progress": 25.0}
    assert [one.name for one in after] == ["member", "collection", "finished"]
    assert ids(before + after) == [3, 4, 5, 5]
    assert (after[-1].data["state"], after[-1].data["settled"]) == ("complete", True)


async def test_who_comes_back_hears_the_rest_and_after_the_end_is_told_to_stop(
    http: httpx2.AsyncClient, gathering: Gathering
) -> None:
    await gathering.say(
        member(1, "completed", 3),
        member(2, "failed", 4),
        changed(5, "partial", settled=True),
    )

    whole, rest = await story(http), await story(http, after=3)
    ended = await http.get(f"/collections/{ID}/events", params={"last_event_id": 5})

    assert ids(whole) == [3, 4, 5, 5]
    assert ids(rest) == [4, 5, 5]
    assert ended.status_code == 204


async def test_of_figures_nobody_took_in_time_only_the_newest_of_each_member_wait() -> None:
    everything_said = asyncio.Event()

    async def spoken() -> AsyncGenerator[pb.WatchCollectionResponse, None]:
        for step in range(100):
            yield progress(1, step / 100)
            yield progress(2, step / 100)
        yield member(1, "completed", 3)
        everything_said.set()

    def whose(update: pb.WatchCollectionResponse) -> int | None:
        return update.progress.number or None

    mail = Mailbox(spoken(), whose)
    mail.open()
    await everything_said.wait()

    assert await mail.next(1) == [member(1, "completed", 3), progress(1, 0.99), progress(2, 0.99)]
    mail.close()


async def test_who_does_not_read_stops_the_orchestrator_from_sending(
    http: httpx2.AsyncClient, gathering: Gathering
) -> None:
    everybody = 1500
    title = "word " * 4000
    await gathering.say(
        *(member(number, "pending", number, title=title) for number in range(1, everybody)),
        changed(everybody, "complete", settled=True),
    )
    async with http.stream("GET", f"/collections/{ID}/events") as answer:
        await _until_still(gathering)
        unread = gathering.sent
        told = [line async for line in answer.aiter_lines() if line.startswith("id: ")]

    assert unread < everybody
    assert told[:-1] == [f"id: {number}" for number in range(1, everybody + 1)]


async def test_a_stream_outlives_the_orchestrator() -> None:
    gathering = Gathering()
    await gathering.say(member(1, "running", 3))
    async with serving_collections(gathering) as address:
        gateway = running_gateway(orchestrator=address)
        http = await gateway.__aenter__()
        stream = following(http)
        told = await stream.__aenter__()
        before = [await anext(told) for _ in range(2)]
    try:
        async with serving_collections(gathering, address):
            await gathering.say(member(1, "completed", 4), changed(5, "complete", settled=True))
            after = [one async for one in told]
    finally:
        await stream.__aexit__(None, None, None)
        await gateway.__aexit__(None, None, None)

    assert ids(before) == [3]
    assert [(one.name, one.id) for one in after if one.id] == [
        ("member", 4),
        ("collection", 5),
        ("finished", 5),
    ]


async def test_cancelling_and_deleting_answer_as_with_jobs(http: httpx2.AsyncClient) -> None:
    stopped = await http.post(f"/collections/{ID}/cancel", params={"note": "enough"})
    removed = await http.delete(f"/collections/{ID}")

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
async def test_a_collection_nobody_knows_is_a_problem(
    http: httpx2.AsyncClient, method: str, path: str
) -> None:
    answer = await http.request(method, f"/collections/unknown{path}")

    assert answer.status_code == 404
    assert answer.json()["reason"] == "COLLECTION_NOT_FOUND"
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_report_is_passed_on_as_it_comes_and_can_do_nothing(
    http: httpx2.AsyncClient, gathering: Gathering
) -> None:
    gathering.report = [
        pb.GetReportResponse(chunk=b"<p>", media_type="text/html", file_name="Março: 1/2.html"),
        pb.GetReportResponse(chunk=b"<script>alert(1)</script>"),
    ]

    answer = await http.get(f"/collections/{ID}/report", params={"format": "html"})
    saved = await http.get(f"/collections/{ID}/report", params={"format": "html", "download": True})

    assert answer.content == b"<p><script>alert(1)</script>"
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none';")
    assert "script-src" not in policy
    assert "allow" not in policy
    assert answer.headers["Content-Disposition"].startswith('inline; filename="Mar_o_ 1_2.html"')
    assert saved.headers["Content-Disposition"].startswith("attachment;")


@pytest.mark.parametrize(
    ("format", "kind", "name"),
    [
        ("json", "application/json", "json"),
        ("markdown", "text/markdown; charset=utf-8", "md"),
        ("pdf", "application/pdf", "pdf"),
        ("zip", "application/zip", "zip"),
    ],
)
async def test_every_format_of_a_report_has_its_type_and_name(
    http: httpx2.AsyncClient, gathering: Gathering, format: str, kind: str, name: str
) -> None:
    gathering.report = [pb.GetReportResponse(chunk=b"{}")]

    wish = {"format": format, "captions": "vtt"}
    answer = await http.get(f"/collections/{ID}/report", params=wish)

    asked = gathering.asked[0]
    assert pb.ReportFormat.Name(asked.format) == f"REPORT_FORMAT_{format.upper()}"
    assert asked.caption_format == media_pb2.CAPTION_FORMAT_VTT
    assert answer.headers["Content-Type"] == kind
    how = "attachment" if format == "zip" else "inline"
    assert answer.headers["Content-Disposition"] == f'{how}; filename="{ID}.{name}"'


async def _until_still(gathering: Gathering) -> None:
    """Returns when nothing was sent for half a second."""
    before = -1
    async with asyncio.timeout(30):
        while gathering.sent != before or not gathering.sent:
            before = gathering.sent
            await asyncio.sleep(0.5)
