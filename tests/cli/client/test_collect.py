"""`ytcaption collect` against the fake orchestrator on a real socket."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from google.protobuf.duration import from_seconds
from google.protobuf.json_format import MessageToDict

from cli.commands.collections import collect
from cli.exits import CommandError, Exit
from cli.params import DurationParam, check_sources
from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from tests.support.collection_updates import COLLECTION_ID, LIST
from tests.support.command import finish, run, start
from tests.support.fake_orchestrator import FakeCollections, serving
from ytcaption.v1 import collection_pb2 as collection_pb
from ytcaption.v1 import collection_service_pb2 as service_pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import task_pb2 as task_pb


async def test_members_are_lines_on_stdout_and_nothing_else_is() -> None:
    scripted = FakeCollections()

    async with serving(collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert ended.code == 0, ended.err
    assert ended.out == "   1 completed Talk 1\n   2 completed Talk 2\n"
    assert f"collection {COLLECTION_ID}: 2 completed\n" in ended.err
    assert list(scripted.created[0].sources) == [LIST]
    assert scripted.watches == [0]


async def test_only_chosen_options_are_sent(tmp_path: Path) -> None:
    scripted = FakeCollections()
    more = tmp_path / "more"
    more.write_text(f"# two more\n\n {LIST}/b \nytsearch5:two words\n")
    chosen = (
        *("--from", "2025-10-01", "--to", "2025-10-31", "--max-members", "9"),
        *("--max-in-flight", "3", "--timeout", "1h 30m", "--title", "October", "--force"),
        *("--request-id", "r1", "--webhook", "https://example.org/hook", "--priority", "low"),
        *("--caller", "alice", "--language", "pt", "--max-lines", "1", "--from-file", str(more)),
    )

    async with serving(collections=scripted) as address:
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


async def test_single_recordings_are_read_from_stdin_and_not_listed() -> None:
    scripted = FakeCollections()
    lines = "".join(f"https://example.net/{number}\n" for number in range(30))

    async with serving(collections=scripted) as address:
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
        ((LIST, "--timeout", "30"), "is not a duration such as"),
        ((LIST, "--timeout", "0s"), "is not a duration such as"),
        ((LIST, "--timeout", "2 hours or so"), "is not a duration such as"),
        ((LIST, "--period", "2025-13"), "is not a year, month or day"),
        ((LIST, "--from", "tomorrow"), "is not a day such as"),
        ((LIST, "--from", "2025-02-01", "--to", "2025-01-01"), "--to is before --from"),
        ((LIST, "--period", "2025", "--to", "2025-01-01"), "not both"),
        ((LIST, "--each", "--period", "2025"), "not with --each"),
        ((LIST, "--late"), "--timeout"),
        ((LIST, "--detach"), "--server"),
        ((LIST, "--webhook", "https://example.org/"), "--server"),
        ((LIST, "--detach", "-o", "x", "--server", "127.0.0.1:1"), "--detach does not wait"),
        ((LIST, "--from-file", "/nowhere"), "cannot read /nowhere"),
        (tuple(f"{LIST}/{number}" for number in range(21)), "use --each"),
    ],
)
def test_a_usage_error_starts_nothing(arguments: tuple[str, ...], words: str) -> None:
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
def test_an_invalid_source_is_refused_before_anything_starts(
    source: str, each: bool, words: str
) -> None:
    with pytest.raises(CommandError, match=re.escape(words)) as refusal:
        check_sources([LIST, source], each=each)

    assert refusal.value.code == Exit.REFUSED


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("90 s", 90), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172_800)],
)
def test_a_timeout_is_parsed_with_its_unit(text: str, seconds: float) -> None:
    assert DurationParam().convert(text, None, None).total_seconds() == seconds


async def test_a_refusal_is_one_line_with_its_reason() -> None:
    scripted = FakeCollections()
    scripted.refusal = InvalidRequestError("too many members", reason=Reason.REQUEST_INVALID)

    async with serving(collections=scripted) as address:
        ended = await run("collect", LIST, "--server", address)

    assert (ended.code, ended.err) == (3, "error: too many members (REQUEST_INVALID)\n")


async def test_collectors_and_executors_are_named_with_their_parameters() -> None:
    scripted = FakeCollections()
    named = (
        *("--source", "blog:url=https://a.test/?b=1,depth=3,all=true", "--source", "feed"),
        *("--executor", 'resumo@item:{"words": ["a,b"]}', "--executor", "relatorio"),
    )

    async with serving(collections=scripted) as address:
        ended = await run("collect", *named, "--detach", "--server", address)

    assert ended.code == 0, ended.err
    [request] = scripted.created
    assert [one.type for one in request.source_specs] == ["blog", "feed"]
    given = MessageToDict(request.source_specs[0].parameters)
    assert given == {"url": "https://a.test/?b=1", "depth": 3, "all": True}
    assert [(one.kind, one.scope) for one in request.executors] == [
        ("resumo", task_pb.EXECUTOR_SCOPE_ITEM),
        ("relatorio", task_pb.EXECUTOR_SCOPE_UNSPECIFIED),
    ]
    assert MessageToDict(request.executors[0].parameters) == {"words": ["a,b"]}


@pytest.mark.parametrize("spec", ["", ":a=1", "two words", "blog:a", "blog:{", "blog:=1"])
def test_a_collector_that_cannot_be_read_is_refused(spec: str) -> None:
    refused = CliRunner().invoke(collect, ["--source", spec, "--server", "127.0.0.1:1"])

    assert refused.exit_code == 2
    assert "--source" in refused.output


async def test_the_ends_of_subtasks_are_shown_and_missing_ones_make_it_partial() -> None:
    subtask = task_pb.Subtask(
        number=1,
        role=task_pb.TASK_ROLE_COLLECTOR,
        type="blog",
        state=task_pb.SUBTASK_STATE_TIMED_OUT,
        found=2,
    )
    partial = collection_pb.Collection(
        collection_id=COLLECTION_ID, state=collection_pb.COLLECTION_STATE_PARTIAL, settled=True
    )
    partial.end_time.GetCurrentTime()
    scripted = FakeCollections(
        [
            service_pb.WatchCollectionResponse(sequence=2, subtask=subtask),
            service_pb.WatchCollectionResponse(sequence=3, collection=partial),
        ]
    )

    async with serving(collections=scripted) as address:
        ended = await run("collect", "--source", "blog", "--server", address)
        lines = await run("collect", "--source", "blog", "--json", "--server", address)

    assert ended.code == Exit.PARTIAL
    assert "collector blog: timed out, 2 found\n" in ended.err
    assert "1 of 1 subtasks did not complete" in ended.err
    shown = [json.loads(line) for line in lines.out.splitlines()]
    [line] = [one for one in shown if one["type"] == "subtask"]
    assert (line["name"], line["role"], line["state"]) == ("blog", "COLLECTOR", "TIMED_OUT")


async def test_files_of_executors_are_written_beside_the_captions(tmp_path: Path) -> None:
    made = task_pb.Subtask(
        number=2,
        role=task_pb.TASK_ROLE_EXECUTOR,
        type="palavras",
        state=task_pb.SUBTASK_STATE_COMPLETED,
        files=[task_pb.ResultFile(name="../words.csv")],
    )
    complete = collection_pb.Collection(
        collection_id=COLLECTION_ID, state=collection_pb.COLLECTION_STATE_COMPLETE, settled=True
    )
    complete.end_time.GetCurrentTime()
    scripted = FakeCollections(
        [
            service_pb.WatchCollectionResponse(sequence=2, subtask=made),
            service_pb.WatchCollectionResponse(sequence=3, collection=complete),
        ]
    )
    scripted.subtasks = [made]
    folder = tmp_path / "out"

    async with serving(collections=scripted) as address:
        named = ("--source", "blog", "--executor", "palavras", "--json")
        ended = await run("collect", *named, "-o", str(folder), "--server", address)

    assert ended.code == 0, ended.err
    [name] = json.loads(ended.out.splitlines()[-1])["files"]
    path = Path(name)
    assert path.parent == folder
    assert path.name == "palavras-2 .._words.csv"
    assert await asyncio.to_thread(path.read_bytes) == scripted.report
