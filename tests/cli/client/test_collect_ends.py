"""How `ytcaption collect` ends: partial, late, cancelled, reconnected, interrupted."""

import signal
from pathlib import Path

import pytest

from tests.support.collection_updates import (
    COLLECTION_ID,
    COMPLETE,
    COMPLETED,
    LATE,
    LIST,
    PARTIAL,
    PRIVATE,
    collection,
    member,
    updates_of,
)
from tests.support.command import finish, names_in, next_line, run, start
from tests.support.fake_orchestrator import FakeCollections, serving
from tests.support.polling import until
from ytcaption.v1 import collection_pb2 as pb


async def test_a_partial_collection_is_code_5_and_says_what_is_missing() -> None:
    scripted = FakeCollections(PARTIAL)

    async with serving(collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert ended.code == 5
    assert "   2 failed    Talk 2: the video is private (VIDEO_PRIVATE)\n" in ended.out
    assert ended.err.endswith("error: the collection is partial: 1 failed\n")


async def test_a_broken_listing_is_reported_once_and_makes_the_collection_partial() -> None:
    broken = [pb.Listing(source=LIST, complete=True, found=1, failure=PRIVATE)]
    partial = collection(pb.COLLECTION_STATE_PARTIAL, 1, listings=broken)
    scripted = FakeCollections(updates_of(partial, member(1, COMPLETED), partial))

    async with serving(collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert ended.code == 5
    assert ended.err.count(f"the listing of {LIST} broke off: ") == 1
    assert "1 of 1 listings broke off" in ended.err


async def test_a_cancelled_collection_is_code_6() -> None:
    cancelled = collection(pb.COLLECTION_STATE_CANCELLED, 0, cancel_note="enough", settled=True)
    scripted = FakeCollections(updates_of(cancelled))

    async with serving(collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert ended.code == 6
    assert "the collection was cancelled: enough" in ended.err


async def test_it_returns_at_the_deadline_unless_late_members_are_waited_for() -> None:
    scripted = FakeCollections(LATE)
    timed = ("collect", LIST, "--timeout", "90s")

    async with serving(collections=scripted) as address:
        at_deadline = await run(*timed, "--server", address)
        late = await run(*timed, "--late", "--server", address)

    assert at_deadline.code == 5
    assert "   2 timed out Talk 2\n" in at_deadline.out
    assert f"ytcaption watch {COLLECTION_ID}" in at_deadline.err
    assert late.code == 0
    assert late.out.endswith("   2 completed Talk 2 (late)\n")


async def test_reconnects_neither_lose_nor_repeat_a_member() -> None:
    scripted = FakeCollections(COMPLETE)
    scripted.cut_after = [0, 4, 1]

    async with serving(collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert (ended.code, len(ended.out.splitlines())) == (0, 2)
    assert scripted.watches == [0, 0, 4, 5]
    assert ended.err.count("connection was lost") == 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_an_interrupted_collection_is_cancelled_and_keeps_its_files(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    scripted = FakeCollections()
    scripted.stays_open_after = 5

    async with serving(collections=scripted) as address:
        process = await start(
            *("collect", LIST, "--server", address, "-o", str(tmp_path), "-f", "srt"),
            *("--report", "html"),
        )
        await next_line(process)
        process.send_signal(number)
        ended = await finish(process)

    assert ended.code == code
    (asked,) = scripted.cancelled
    assert (asked.collection_id, asked.note) == (COLLECTION_ID, "interrupted at the terminal")
    assert f"collection {COLLECTION_ID} was cancelled" in ended.err
    assert names_in(tmp_path) == ["001 Talk 1.srt", "report.html"]


async def test_a_second_interruption_exits_at_once() -> None:
    scripted = FakeCollections()
    scripted.stays_open_after = 5
    scripted.cancels_answer = False

    async with serving(collections=scripted) as address:
        process = await start("collect", LIST, "--server", address)
        await next_line(process)
        process.send_signal(signal.SIGINT)
        await until(lambda: len(scripted.cancelled) == 1)
        process.send_signal(signal.SIGINT)
        ended = await finish(process)

    assert ended.code == 130
    assert "left before everything was written" in ended.err
    assert "could not be cancelled" not in ended.err
