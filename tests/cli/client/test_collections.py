"""The short commands for collections and webhooks against the fake orchestrator."""

import json
from pathlib import Path

import pytest

from tests.support.collection_updates import (
    COLLECTION_ID,
    COMPLETED,
    FAILED,
    PRIVATE,
    member,
    running_collection,
)
from tests.support.command import run
from tests.support.fake_orchestrator import FakeAdmin, FakeCollections, FakePipeline, serving
from tests.support.job_updates import JOB_ID, duration
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb
from ytcaption.v1 import media_pb2 as media_pb

UNKNOWN_ID = "0199cccc-0000-7000-8000-000000000001"


async def test_watch_cancel_and_delete_also_take_collection_ids() -> None:
    scripted, pipeline = FakeCollections(), FakePipeline()

    async with serving(pipeline, collections=scripted) as address:
        watched = await run("watch", COLLECTION_ID, "--server", address)
        cancelled = await run("cancel", COLLECTION_ID, "--note", "why", "--server", address)
        deleted = await run("delete", COLLECTION_ID, "--server", address)
        as_json = await run("delete", COLLECTION_ID, "--json", "--server", address)

    assert (watched.code, watched.out.splitlines()[-1]) == (0, "   2 completed Talk 2")
    assert cancelled.out == f"{COLLECTION_ID} cancelled\n"
    assert scripted.cancelled[0].note == "why"
    assert deleted.out == f"{COLLECTION_ID} deleted: 2 jobs\n"
    assert json.loads(as_json.out) == {"collection_id": COLLECTION_ID, "jobs_removed": 2}
    assert (pipeline.watches, pipeline.cancelled, pipeline.deleted) == ([], [], [])


@pytest.mark.parametrize("command", ["watch", "cancel", "delete"])
async def test_an_unknown_id_is_one_clear_line(command: str) -> None:
    async with serving() as address:
        ended = await run(command, UNKNOWN_ID, "--server", address)

    assert ended.err == f"error: there is no job and no collection {UNKNOWN_ID} (NOT_FOUND)\n"
    assert (ended.code, ended.out) == (3, "")


async def test_watch_gives_every_update_as_json_after_a_sequence() -> None:
    scripted = FakeCollections()

    async with serving(collections=scripted) as address:
        ended = await run("watch", COLLECTION_ID, "--json", "--after", "3", "--server", address)

    updates = [json.loads(line) for line in ended.out.splitlines()]
    stored = [int(update["sequence"]) for update in updates if "sequence" in update]
    assert ended.code == 0, ended.err
    assert stored == [4, 5, 6, 7, 8]
    assert updates[0]["collection"]["collection_id"] == COLLECTION_ID
    assert scripted.watches == [3]


async def test_watch_after_a_sequence_prints_no_earlier_line_but_counts_all_members() -> None:
    async with serving() as address:
        ended = await run("watch", COLLECTION_ID, "--after", "5", "--server", address)

    assert ended.out == "   2 completed Talk 2\n"
    assert "2 completed" in ended.err


async def test_collections_are_listed_over_pages() -> None:
    scripted = FakeCollections()
    counts = [
        pb.MemberCount(state=FAILED, count=1),
        pb.MemberCount(state=COMPLETED, count=27),
    ]
    for number in range(5):
        one = running_collection(28, counts=counts)
        one.collection_id = f"{number:036}"
        scripted.listed.append(one)

    async with serving(collections=scripted) as address:
        table = await run("collections", "--server", address)
        few = await run("collections", "--limit", "3", "--json", "--server", address)

    assert [line.split()[0] for line in table.out.splitlines()[1:]] == [
        f"{number:036}" for number in range(5)
    ]
    assert "27 completed, 1 failed" in table.out
    assert len(few.out.splitlines()) == 3
    assert json.loads(few.out.splitlines()[0])["state"] == "COLLECTION_STATE_RUNNING"


async def test_a_collection_is_shown_with_its_members_over_pages() -> None:
    scripted = FakeCollections()
    listing = pb.Listing(source="https://example.net/list", found=250, failure=PRIVATE)
    scripted.snapshot = running_collection(250, listings=[listing])
    scripted.members = [
        *(member(n, COMPLETED, duration=duration(65), language="en") for n in range(1, 250)),
        member(250, FAILED, failure=PRIVATE, title="[bold]\x1b[31m"),
    ]

    async with serving(collections=scripted) as address:
        short = await run("collection", COLLECTION_ID, "--server", address)
        whole = await run("collection", COLLECTION_ID, "--all", "--server", address)
        as_json = await run("collection", COLLECTION_ID, "--all", "--json", "--server", address)
        unknown = await run("collection", UNKNOWN_ID, "--server", address)

    assert "broke off: the video is private (VIDEO_PRIVATE)" in short.out
    assert "Talk 50" in short.out
    assert "Talk 51" not in short.out
    assert "200 more members" in short.err
    assert "job-249" in whole.out
    assert "[bold]" in whole.out
    assert "\x1b" not in whole.out
    found = json.loads(as_json.out)
    assert found["collection"]["title"] == "October"
    assert [one["number"] for one in found["members"]] == list(range(1, 251))
    assert (unknown.code, unknown.err.count("\n")) == (3, 1)


async def test_a_report_is_written_whole_to_a_pipe_a_file_or_a_directory(tmp_path: Path) -> None:
    scripted = FakeCollections()
    scripted.report = "# Öctober\n".encode() * 20_000
    scripted.report_name = "../October.zip"
    path = tmp_path / "x.html"

    async with serving(collections=scripted) as address:
        piped = await run("report", COLLECTION_ID, "--server", address)
        into = await run(
            "report", COLLECTION_ID, "-f", "html", "-o", str(path), "--server", address
        )
        folder = await run(
            *("report", COLLECTION_ID, "-f", "zip", "--captions", "vtt"),
            *("-o", str(tmp_path), "--server", address),
        )
        unknown = await run("report", UNKNOWN_ID, "-o", str(tmp_path / "no"), "--server", address)

    assert piped.out.encode() == scripted.report
    assert into.err == f"wrote {path}\n"
    assert path.read_bytes() == scripted.report
    assert folder.err == f"wrote {tmp_path / '_October.zip'}\n"
    assert [(one.format, one.caption_format) for one in scripted.reports] == [
        (service_pb.REPORT_FORMAT_MARKDOWN, media_pb.CAPTION_FORMAT_SRT),
        (service_pb.REPORT_FORMAT_HTML, media_pb.CAPTION_FORMAT_SRT),
        (service_pb.REPORT_FORMAT_ZIP, media_pb.CAPTION_FORMAT_VTT),
    ]
    assert unknown.code == 3
    assert not (tmp_path / "no").exists()


async def test_a_caption_format_is_refused_for_other_reports_than_zip() -> None:
    ended = await run("report", COLLECTION_ID, "-f", "pdf", "--captions", "srt")

    assert ended.code == 2
    assert "--captions is for -f zip" in ended.err


async def test_webhooks_are_listed_with_their_last_answer() -> None:
    admin = FakeAdmin()
    attempt = admin_pb.DeliveryAttempt(number=1, status=503, error="busy\x1b[2J")
    taken = admin_pb.DeliveryAttempt(number=2, status=200)
    admin.deliveries = [
        admin_pb.WebhookDelivery(
            event_id=f"e{number}",
            type="job.finished",
            url="https://example.org/hook",
            job_id=JOB_ID,
            state=state,
            attempts=attempts,
        )
        for number, (state, attempts) in enumerate(
            [
                (admin_pb.DELIVERY_STATE_PENDING, [attempt]),
                (admin_pb.DELIVERY_STATE_DELIVERED, [attempt, taken]),
                (admin_pb.DELIVERY_STATE_PENDING, []),
            ]
        )
    ]

    async with serving(admin=admin) as address:
        table = await run("webhooks", "--job", JOB_ID, "--server", address)
        as_json = await run(
            *("webhooks", "--collection", COLLECTION_ID, "--limit", "2", "--json"),
            *("--server", address),
        )

    rows = [line.split() for line in table.out.splitlines()[1:]]
    assert [(row[0], row[2]) for row in rows] == [
        (JOB_ID, "pending"),
        (JOB_ID, "delivered"),
        (JOB_ID, "pending"),
    ]
    assert "503 busy" in table.out
    assert "\x1b" not in table.out
    assert [json.loads(line)["event_id"] for line in as_json.out.splitlines()] == ["e0", "e1"]
    assert admin.deliveries_requested[0].job_id == JOB_ID
    assert admin.deliveries_requested[-1].collection_id == COLLECTION_ID


async def test_a_webhook_is_sent_with_a_job_but_refused_for_an_embedded_mesh() -> None:
    pipeline = FakePipeline()
    hook = ("--webhook", "https://example.org/hook")

    async with serving(pipeline) as address:
        await run("submit", "https://example.net/v", *hook, "--server", address)
        await run("transcribe", "https://example.net/v", *hook, "--server", address)
        refused = await run("transcribe", "https://example.net/v", *hook)

    assert [one.webhook_url for one in pipeline.created] == ["https://example.org/hook"] * 2
    assert refused.code == 2
    assert "--webhook needs a mesh that goes on running" in " ".join(refused.err.split())
