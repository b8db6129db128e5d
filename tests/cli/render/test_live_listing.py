"""Lists that are watched: every change once in a pipe, a table that moves on a terminal."""

import asyncio
import json
import re
import signal
import sys
from typing import Any

from tests.cli.command import environment, finish, run, start
from tests.cli.scripted import ScriptedPipeline, serving
from tests.cli.scripted_collections import ScriptedCollections, going_on
from tests.cli.terminal import Terminal
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

QUEUED, RUNNING, DONE = (
    job_pb.JOB_STATE_QUEUED,
    job_pb.JOB_STATE_RUNNING,
    job_pb.JOB_STATE_SUCCEEDED,
)


def job(number: int, state: "job_pb.JobState.ValueType", **fields: Any) -> job_pb.Job:
    media = media_pb.MediaInfo(title=f"[bold]Talk\x1b[31m {number} " + "long " * 60)
    return job_pb.Job(job_id=f"{number:036}", state=state, media=media, **fields)


def page(*jobs: job_pb.Job) -> pb.WatchJobsResponse:
    return pb.WatchJobsResponse(jobs=jobs)


async def _read(process: asyncio.subprocess.Process, lines: int) -> list[dict[str, Any]]:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return [json.loads(await process.stdout.readline()) for _ in range(lines)]


async def test_a_pipe_gets_every_change_of_a_job_once_through_every_cut() -> None:
    pipeline = ScriptedPipeline()
    begun = page(job(2, QUEUED), job(1, RUNNING, progress=0.25))
    moved = page(job(2, QUEUED), job(1, RUNNING, progress=0.5))
    pipeline.pages = [[begun, moved], [moved, page(job(1, DONE, progress=1))]]

    async with serving(pipeline) as address:
        process = await start(
            *("jobs", "--watch", "--state", "running", "--search", "talk", "--limit", "7"),
            *("--server", address),
        )
        told = await _read(process, 5)
        process.send_signal(signal.SIGINT)
        ended = await finish(process)

    one, two = f"{1:036}", f"{2:036}"
    assert [(line["job_id"], line.get("progress")) for line in told] == [
        *((two, None), (one, 0.25)),
        (one, 0.5),
        *((two, None), (one, 1.0)),
    ]
    assert [line.get("gone") for line in told] == [None, None, None, True, None]
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.count("the connection was lost") == 1
    asked = pipeline.lists_watched[-1]
    assert (asked.page_size, asked.query, list(asked.states)) == (7, "talk", [RUNNING])


async def test_a_terminal_shows_a_table_that_moves_and_stays_when_it_is_left() -> None:
    pipeline, terminal = ScriptedPipeline(), Terminal()
    pipeline.pages = [[page(job(1, RUNNING, progress=0.25)), page(job(1, DONE, progress=1))]]

    async with serving(pipeline) as address:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "cli", "jobs", "--watch"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=terminal.far,
            stderr=terminal.far,
            env=environment(YTCAPTION_SERVER=address, TERM="xterm", COLUMNS="120", LINES="24"),
        )
        try:
            async with asyncio.timeout(30):
                while b"succeeded" not in terminal.so_far():  # noqa: ASYNC110 # about a process
                    await asyncio.sleep(0.02)
        finally:
            process.send_signal(signal.SIGINT)
            code = await process.wait()
            shown = await terminal.everything()

    assert code == 130
    assert re.search(r"running.*25%.*succeeded.*100%", shown, re.DOTALL)
    assert "[bold]Talk" in shown
    assert "\x1b[31m" not in shown
    assert shown.count("Talk") <= 4  # one line a job, cut rather than wrapped


async def test_collections_are_watched_the_same_way() -> None:
    scripted = ScriptedCollections()
    for number in range(2):
        scripted.listed.append(going_on(3))
        scripted.listed[-1].collection_id = f"{number:036}"

    async with serving(ScriptedPipeline(), collections=scripted) as address:
        process = await start("collections", "--watch", "--json", "--server", address)
        told = await _read(process, 2)
        process.send_signal(signal.SIGTERM)
        ended = await finish(process)

    assert [line["collection_id"] for line in told] == [f"{number:036}" for number in range(2)]
    assert ended.code == 143


async def test_who_cannot_be_reached_is_not_waited_for() -> None:
    ended = await run("jobs", "--watch", "--server", "127.0.0.1:9")

    assert (ended.code, ended.out) == (4, "")


async def test_a_limit_beyond_one_page_is_refused_rather_than_cut() -> None:
    for command in ("jobs", "collections"):
        done = await run(command, "--watch", "--limit", "201")
        assert (done.code, "--watch shows 200 at most" in done.err) == (2, True)
