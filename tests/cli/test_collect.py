"""`ytcaption collect` against a scripted server on a real socket."""

import json
import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner
from google.protobuf.duration import from_seconds

from cli.commands.collecting import collect
from cli.exits import CommandError, Exit
from cli.wishes import Span, check_sources
from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from tests.cli.command import finish, names_in, run, start
from tests.cli.scripted import ScriptedPipeline, serving, until
from tests.cli.scripted_collections import (
    COLLECTION_ID,
    COMPLETE,
    COMPLETED,
    LATE,
    PARTIAL,
    PRIVATE,
    ScriptedCollections,
    collection,
    member,
    told,
)
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb

LIST = "https://example.net/list"


async def test_members_are_lines_on_stdout_and_nothing_else_is() -> None:
    scripted = ScriptedCollections()

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert ended.code == 0, ended.err
    assert ended.out == "   1 completed Talk 1\n   2 completed Talk 2\n"
    assert f"collection {COLLECTION_ID}: 2 completed\n" in ended.err
    assert list(scripted.created[0].sources) == [LIST]
    assert scripted.watches == [0]


async def test_everything_that_was_chosen_is_sent_and_nothing_else(tmp_path: Path) -> None:
    scripted = ScriptedCollections()
    more = tmp_path / "more"
    more.write_text(f"# two more\n\n {LIST}/b \nytsearch5:two words\n")
    chosen = (
        *("--from", "2025-10-01", "--to", "2025-10-31", "--max-members", "9"),
        *("--max-in-flight", "3", "--timeout", "1h 30m", "--title", "October", "--force"),
        *("--request-id", "r1", "--webhook", "https://example.org/hook", "--priority", "low"),
        *("--caller", "alice", "--language", "pt", "--max-lines", "1", "--from-file", str(more)),
    )

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        detached = await run("collect", LIST, *chosen, "--detach", "--server", address)
        await run("collect", LIST, "--detach", "--server", address)

    full, bare = scripted.created
    assert (detached.code, detached.out, detached.err) == (0, f"{COLLECTION_ID}\n", "")
    assert full.correlation_id
    full.correlation_id = ""
    assert full == service_pb.CreateCollectionRequest(
        sources=[LIST, f"{LIST}/b", "ytsearch5:two words"],
        options=job_pb.JobOptions(language="pt", cue_rules=media_pb.CueRules(max_lines=1)),
        timeout=from_seconds(5400),
        max_in_flight=3,
        request_id="r1",
        from_date="2025-10-01",
        to_date="2025-10-31",
        max_members=9,
        webhook_url="https://example.org/hook",
        title="October",
        caller="alice",
        priority=job_pb.PRIORITY_LOW,
        force=True,
    )
    assert {field.name for field, _ in bare.ListFields()} == {
        *("sources", "options", "priority", "correlation_id")
    }
    assert scripted.watches == []


async def test_single_recordings_come_from_stdin_without_a_look_behind_them() -> None:
    scripted = ScriptedCollections()
    lines = "".join(f"https://example.net/{number}\n" for number in range(30))

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        process = await start(
            *("collect", "--each", "--from-file", "-", "--detach", "--json", "--server", address),
            answers=lines,
        )
        ended = await finish(process)

    assert json.loads(ended.out)["collection_id"] == COLLECTION_ID
    assert list(scripted.created[0].addresses) == lines.split()
    assert not scripted.created[0].sources


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to collect"),
        ((LIST, "--timeout", "30"), "is no time such as"),
        ((LIST, "--timeout", "0s"), "is no time such as"),
        ((LIST, "--timeout", "2 hours or so"), "is no time such as"),
        ((LIST, "--period", "2025-13"), "is no year, month or day"),
        ((LIST, "--from", "tomorrow"), "is no day such as"),
        ((LIST, "--from", "2025-02-01", "--to", "2025-01-01"), "--to is before --from"),
        ((LIST, "--period", "2025", "--to", "2025-01-01"), "not both"),
        ((LIST, "--each", "--period", "2025"), "not with --each"),
        ((LIST, "--late"), "--timeout"),
        ((LIST, "--detach"), "--server"),
        ((LIST, "--webhook", "https://example.org/"), "--server"),
        ((LIST, "--detach", "-o", "x", "--server", "127.0.0.1:1"), "--detach does not wait"),
        ((LIST, "--from-file", "/nowhere"), "cannot read /nowhere"),
        (tuple(f"{LIST}/{number}" for number in range(21)), "say --each"),
    ],
)
def test_a_command_written_wrongly_starts_nothing(arguments: tuple[str, ...], words: str) -> None:
    ended = CliRunner(env={"YTCAPTION_SERVER": None}).invoke(collect, arguments)

    assert ended.exit_code == 2
    assert words in " ".join(ended.stderr.split())


@pytest.mark.parametrize(
    ("source", "each", "words"),
    [
        ("nonsense", False, "'nonsense' is not an http(s) address or a search"),
        ("ftp://example.net/", False, "is not an http(s) address or a search"),
        ("ytsearch5:cats", True, "is not an http(s) address"),
        (__file__, False, "`ytcaption transcribe` takes files"),
    ],
)
def test_a_source_that_cannot_be_is_refused_before_anything_starts(
    source: str, each: bool, words: str
) -> None:
    with pytest.raises(CommandError, match=re.escape(words)) as refusal:
        check_sources([LIST, source], each=each)

    assert refusal.value.code == Exit.REFUSED


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("90 s", 90), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172_800)],
)
def test_a_timeout_has_its_unit(text: str, seconds: float) -> None:
    assert Span().convert(text, None, None).total_seconds() == seconds


async def test_a_refusal_is_one_line_with_its_reason() -> None:
    scripted = ScriptedCollections()
    scripted.refusal = InvalidRequestError("too many members", reason=Reason.REQUEST_INVALID)

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert (ended.code, ended.err) == (3, "error: too many members (REQUEST_INVALID)\n")


async def test_a_partial_collection_is_code_5_and_says_what_is_missing() -> None:
    scripted = ScriptedCollections(PARTIAL)

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert ended.code == 5
    assert "   2 failed    Talk 2: the video is private (VIDEO_PRIVATE)\n" in ended.out
    assert ended.err.endswith("error: the collection is partial: 1 failed\n")


async def test_a_listing_that_broke_off_is_told_once_and_is_partial() -> None:
    broken = [pb.Listing(source=LIST, complete=True, found=1, failure=PRIVATE)]
    partial = collection(pb.COLLECTION_STATE_PARTIAL, 1, listings=broken)
    scripted = ScriptedCollections(told(partial, member(1, COMPLETED), partial))

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert ended.code == 5
    assert ended.err.count(f"{LIST} could not be listed to its end") == 1
    assert "1 of 1 listings broke off" in ended.err


async def test_a_collection_somebody_cancelled_is_code_6() -> None:
    cancelled = collection(pb.COLLECTION_STATE_CANCELLED, 0, cancel_note="enough", settled=True)
    scripted = ScriptedCollections(told(cancelled))

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert ended.code == 6
    assert "the collection was cancelled: enough" in ended.err


async def test_it_returns_at_the_deadline_or_waits_for_late_ones_if_told() -> None:
    scripted = ScriptedCollections(LATE)
    timed = ("collect", LIST, "--timeout", "90s")

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        at_deadline = await run(*timed, "--server", address)
        late = await run(*timed, "--late", "--server", address)

    assert at_deadline.code == 5
    assert "   2 timed out Talk 2\n" in at_deadline.out
    assert f"ytcaption watch {COLLECTION_ID}" in at_deadline.err
    assert late.code == 0
    assert late.out.endswith("   2 completed Talk 2 (late)\n")


async def test_cuts_neither_lose_nor_repeat_a_member() -> None:
    scripted = ScriptedCollections(COMPLETE)
    scripted.cut_after = [0, 4, 1]

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert (ended.code, len(ended.out.splitlines())) == (0, 2)
    assert scripted.watches == [0, 0, 4, 5]
    assert ended.err.count("connection was lost") == 3


async def test_files_and_reports_are_written_in_the_order_of_the_collection(tmp_path: Path) -> None:
    scripted, pipeline = ScriptedCollections(), ScriptedPipeline()

    async with serving(pipeline, collections=scripted) as address:
        ended = await run(
            *("collect", LIST, "--server", address, "-o", str(tmp_path / "new"), "-f", "vtt"),
            *("--report", "pdf", "--report", "zip", "--json"),
        )

    files = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert ended.code == 0, ended.err
    assert files == {
        "001 Talk 1.vtt": b"VTT of job-1\n",
        "002 Talk 2.vtt": b"VTT of job-2\n",
        "report.pdf": scripted.report,
        "captions.zip": scripted.report,
    }
    assert [request.caption_format for request in scripted.reports] == [
        media_pb.CAPTION_FORMAT_VTT
    ] * 2
    first, *changes, last = map(json.loads, ended.out.splitlines())
    assert first == {"type": "accepted", "collection_id": COLLECTION_ID}
    assert [(one["number"], one["state"]) for one in changes] == [
        *((1, "PENDING"), (2, "PENDING"), (1, "RUNNING"), (1, "COMPLETED")),
        *((2, "RUNNING"), (2, "COMPLETED")),
    ]
    assert last == {
        "type": "finished",
        "collection_id": COLLECTION_ID,
        "state": "COMPLETE",
        "members": 2,
        "late": 0,
        "counts": {"COMPLETED": 2},
        "files": [str(tmp_path / "new" / f"00{n} Talk {n}.vtt") for n in (1, 2)],
        "reports": [str(tmp_path / "new" / name) for name in ("report.pdf", "captions.zip")],
    }


async def test_hostile_titles_stay_in_the_directory_and_off_the_terminal(tmp_path: Path) -> None:
    title = "../../etc/\x1b]0;owned\x07passwd\u202etxt"
    story = told(
        member(1, COMPLETED, title=title),
        collection(pb.COLLECTION_STATE_COMPLETE, 1, settled=True),
    )

    async with serving(ScriptedPipeline(), collections=ScriptedCollections(story)) as address:
        ended = await run(
            "collect", LIST, "--server", address, "-o", str(tmp_path / "out"), "-f", "srt"
        )

    assert names_in(tmp_path / "out") == ["001 _.._etc_ ]0;owned passwd txt.srt"]
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.out + ended.err)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_an_interrupted_collection_is_cancelled_and_what_is_there_is_kept(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    scripted = ScriptedCollections()
    scripted.stays_open_after = 5

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        process = await start(
            *("collect", LIST, "--server", address, "-o", str(tmp_path), "-f", "srt"),
            *("--report", "html"),
        )
        assert process.stdout is not None
        await process.stdout.readline()
        process.send_signal(number)
        ended = await finish(process)

    assert ended.code == code
    assert [request.collection_id for request in scripted.cancelled] == [COLLECTION_ID]
    assert f"collection {COLLECTION_ID} was cancelled" in ended.err
    assert names_in(tmp_path) == ["001 Talk 1.srt", "report.html"]


async def test_a_second_interruption_leaves_at_once() -> None:
    scripted = ScriptedCollections()
    scripted.stays_open_after = 5
    scripted.cancels_answer = False

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        process = await start("collect", LIST, "--server", address)
        assert process.stdout is not None
        await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        await until(lambda: len(scripted.cancelled) == 1)
        process.send_signal(signal.SIGINT)
        ended = await finish(process)

    assert ended.code == 130
    assert "left before everything was written" in ended.err
    assert "could not be cancelled" not in ended.err


async def test_captions_that_cannot_be_written_fail_the_command_not_the_rest(
    tmp_path: Path,
) -> None:
    (tmp_path / "001 Talk 1.srt").mkdir()

    async with serving(ScriptedPipeline(), collections=ScriptedCollections()) as address:
        ended = await run("collect", LIST, "--server", address, "-o", str(tmp_path), "-f", "srt")

    assert ended.code == 3
    assert "error: cannot write" in ended.err
    assert (tmp_path / "002 Talk 2.srt").is_file()
