"""The short commands for jobs against the fake orchestrator on a real socket."""

import json
from pathlib import Path

import pytest

from mesh.addresses import free_ports
from tests.support.command import run
from tests.support.fake_orchestrator import FakeAdmin, FakePipeline, serving
from tests.support.job_updates import FAILED, JOB_ID, finished
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb


async def test_submit_prints_the_id_and_nothing_else() -> None:
    pipeline = FakePipeline()

    async with serving(pipeline) as address:
        ended = await run("submit", "https://example.net/v", "--server", address)

    assert (ended.code, ended.out, ended.err) == (0, f"{JOB_ID}\n", "")
    assert pipeline.watches == []


async def test_submit_sends_caller_and_priority() -> None:
    pipeline = FakePipeline()

    async with serving(pipeline) as address:
        given = ("--priority", "high", "--caller", "alice")
        await run("submit", "https://example.net/v", *given, "--server", address)
        await run("submit", "https://example.net/v", "--server", address)

    urgent, plain = pipeline.created
    assert (urgent.caller, urgent.priority) == ("alice", job_pb.PRIORITY_HIGH)
    assert (plain.caller, plain.priority) == ("", job_pb.PRIORITY_NORMAL)


async def test_submit_can_wait_for_the_end() -> None:
    async with serving(FakePipeline([finished(1, FAILED)])) as address:
        ended = await run("submit", "https://example.net/v", "--wait", "--server", address)

    assert (ended.code, ended.out) == (1, f"{JOB_ID}\n")
    assert "VIDEO_PRIVATE" in ended.err


async def test_submit_with_wait_and_json_prints_the_job_as_it_ended() -> None:
    async with serving() as address:
        ended = await run("submit", "https://x.net/v", "--wait", "--json", "--server", address)

    assert json.loads(ended.out)["state"] == "JOB_STATE_SUCCEEDED"


def _many(count: int) -> list[job_pb.Job]:
    title = media_pb.MediaInfo(title="[bold]x\x1b[31m" + "long " * 60)
    return [
        job_pb.Job(job_id=f"{number:036}", state=job_pb.JOB_STATE_RUNNING, media=title)
        for number in range(count)
    ]


async def test_the_search_is_done_by_the_server() -> None:
    pipeline = FakePipeline()

    async with serving(pipeline) as address:
        ended = await run("jobs", "--search", "Some words", "--server", address)

    assert ended.code == 0, ended.err
    assert [request.query for request in pipeline.listed] == ["Some words"]


async def test_jobs_are_listed_over_pages_up_to_the_limit() -> None:
    pipeline = FakePipeline()
    pipeline.jobs = _many(7)

    async with serving(pipeline) as address:
        ended = await run(
            *("jobs", "--limit", "5", "--state", "running", "--json", "--server", address)
        )

    assert [json.loads(line)["job_id"] for line in ended.out.splitlines()] == [
        f"{number:036}" for number in range(5)
    ]
    assert [list(request.states) for request in pipeline.listed] == [[job_pb.JOB_STATE_RUNNING]] * 3


async def test_an_empty_list_prints_nothing_on_stdout() -> None:
    async with serving() as address:
        plain = await run("jobs", "--server", address)
        for_programs = await run("jobs", "--json", "--server", address)

    assert (plain.code, plain.out, plain.err) == (0, "", "nothing found\n")
    assert (for_programs.code, for_programs.out, for_programs.err) == (0, "", "")


async def test_the_table_shows_ids_whole_and_titles_as_text() -> None:
    pipeline = FakePipeline()
    pipeline.jobs = _many(2)

    async with serving(pipeline) as address:
        ended = await run("jobs", "--server", address)

    assert f"{1:036}" in ended.out
    assert "[bold]x" in ended.out
    assert "\x1b" not in ended.out


async def test_a_job_is_shown_with_its_failure() -> None:
    async with serving() as address:
        ended = await run("job", JOB_ID, "--server", address)

    assert ended.code == 0
    assert "the video is private (VIDEO_PRIVATE)" in ended.out


@pytest.mark.parametrize("flags", [(), ("--json",)])
async def test_an_unknown_job_is_refused_in_one_line(flags: tuple[str, ...]) -> None:
    async with serving() as address:
        ended = await run("job", "unknown", "--server", address, *flags)

    assert (ended.code, ended.out) == (3, "")
    assert ended.err == "error: no job unknown (JOB_NOT_FOUND)\n"


async def test_captions_go_to_stdout_or_into_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.vtt"

    async with serving() as address:
        printed = await run("captions", JOB_ID, "--server", address)
        await run("captions", JOB_ID, "-f", "vtt", "-o", str(path), "--server", address)

    assert printed.out == f"SRT of {JOB_ID}\n"
    assert path.read_text() == f"VTT of {JOB_ID}\n"


async def test_captions_are_requested_with_cue_limits_and_word_cues() -> None:
    pipeline = FakePipeline()
    limits = (
        "--max-lines",
        "1",
        "--max-line-length",
        "32",
        "--max-cps",
        "17.5",
        "--min-gap",
        "0.12",
    )

    async with serving(pipeline) as address:
        await run("captions", JOB_ID, "-f", "vtt", "--word-cues", *limits, "--server", address)
        await run("captions", JOB_ID, "-f", "lrc", "--server", address)

    worded, plain = pipeline.captions_requested
    assert (worded.word_cues, worded.format) == (True, media_pb.CAPTION_FORMAT_VTT)
    assert (worded.cue_rules.max_lines, worded.cue_rules.max_line_length) == (1, 32)
    assert worded.cue_rules.max_characters_per_second == 17.5
    assert worded.cue_rules.min_gap.ToMilliseconds() == 120
    assert not worded.cue_rules.HasField("max_duration")
    assert (plain.format, plain.word_cues) == (media_pb.CAPTION_FORMAT_LRC, False)
    assert plain.cue_rules == media_pb.CueRules()


@pytest.mark.parametrize("wrong", ["nan", "inf", "-1", "soon"])
async def test_a_limit_that_is_not_an_amount_is_a_usage_error(wrong: str) -> None:
    ended = await run("captions", JOB_ID, "--min-gap", wrong, "--server", "127.0.0.1:1")

    assert ended.code == 2
    assert "--min-gap" in ended.err


async def test_cancel_and_delete_print_their_result() -> None:
    pipeline = FakePipeline()

    async with serving(pipeline) as address:
        cancelled = await run("cancel", JOB_ID, "--note", "wrong one", "--server", address)
        deleted = await run("delete", JOB_ID, "--server", address, "--json")

    assert cancelled.out == f"{JOB_ID} cancelled\n"
    assert pipeline.cancelled[0].note == "wrong one"
    assert json.loads(deleted.out)["events_removed"] == 7
    assert pipeline.deleted == [JOB_ID]


@pytest.mark.parametrize(("healthy", "code"), [(True, 0), (False, 4)])
async def test_the_exit_code_is_the_health(healthy: bool, code: int) -> None:
    admin = FakeAdmin()
    admin.healthy = healthy

    async with serving(admin=admin) as address:
        plain = await run("health", "--server", address)
        as_json = await run("health", "--server", address, "--json")

    assert plain.code == as_json.code == code
    assert "nats" in plain.out
    assert "\x1b" not in plain.out
    assert json.loads(as_json.out)["healthy"] is healthy


@pytest.mark.parametrize(
    "arguments", [("jobs",), ("health",), ("watch", JOB_ID), ("submit", "http://example.net/")]
)
async def test_an_unreachable_server_is_one_line_and_code_4(
    arguments: tuple[str, ...],
) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"

    ended = await run(*arguments, "--server", address)

    assert ended.code == 4
    assert ended.err.startswith(f"error: no ytcaption server answers at {address}")
    assert ended.err.count("\n") == 1


async def test_a_proxy_in_the_environment_is_not_used_for_loopback() -> None:
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"

    async with serving() as address:
        ended = await run(
            "job", JOB_ID, "--server", address, http_proxy=nowhere, https_proxy=nowhere, no_proxy=""
        )

    assert ended.code == 0, ended.err


async def test_an_invalid_server_address_is_refused() -> None:
    ended = await run("jobs", "--server", "nonsense")

    assert (ended.code, ended.err) == (3, "error: 'nonsense' is not host:port (REQUEST_INVALID)\n")


async def test_job_prints_each_warning() -> None:
    pipeline = FakePipeline()
    pipeline.jobs = [job_pb.Job(job_id=JOB_ID, state=job_pb.JOB_STATE_SUCCEEDED)]
    pipeline.jobs[0].warnings.add(reason="LANGUAGE_UNCERTAIN", message="It may be Galician.")

    async with serving(pipeline) as address:
        ended = await run("job", JOB_ID, "--server", address)

    assert "It may be Galician. (LANGUAGE_UNCERTAIN)" in ended.out
