"""Watched lists: each change once in a pipe, a live table on a terminal."""

import asyncio
import json
import re
import signal
import sys
from typing import Any

from tests.support.collection_updates import running_collection
from tests.support.command import LIMIT_SECONDS, environment, finish, run, start
from tests.support.fake_orchestrator import FakeCollections, FakePipeline, serving
from tests.support.terminal import Terminal
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
    async with asyncio.timeout(LIMIT_SECONDS):
        return [json.loads(await process.stdout.readline()) for _ in range(lines)]


async def test_a_pipe_gets_each_change_of_a_job_once_through_reconnects() -> None:
    pipeline = FakePipeline()
    begun = page(job(2, QUEUED), job(1, RUNNING, progress=0.25))
    moved = page(job(2, QUEUED), job(1, RUNNING, progress=0.5))
    pipeline.pages = [[begun, moved], [moved, page(job(1, DONE, progress=1))]]

    async with serving(pipeline) as address:
        process = await start(
            *("jobs", "--watch", "--state", "running", "--search", "talk", "--limit", "7"),
            *("--server", address),
        )
        lines = await _read(process, 5)
        process.send_signal(signal.SIGINT)
        ended = await finish(process)

    one, two = f"{1:036}", f"{2:036}"
    assert [(line["job_id"], line.get("progress")) for line in lines] == [
        *((two, None), (one, 0.25)),
        (one, 0.5),
        *((two, None), (one, 1.0)),
    ]
    assert [line.get("gone") for line in lines] == [None, None, None, True, None]
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.count("the connection was lost") == 1
    asked = pipeline.lists_watched[-1]
    assert (asked.page_size, asked.query, list(asked.states)) == (7, "talk", [RUNNING])


async def test_a_terminal_shows_a_live_table_that_stays_at_the_end() -> None:
    pipeline, terminal = FakePipeline(), Terminal()
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
            async with asyncio.timeout(LIMIT_SECONDS):
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
    scripted = FakeCollections()
    for number in range(2):
        scripted.listed.append(running_collection(3))
        scripted.listed[-1].collection_id = f"{number:036}"

    async with serving(collections=scripted) as address:
        process = await start("collections", "--watch", "--json", "--server", address)
        lines = await _read(process, 2)
        process.send_signal(signal.SIGTERM)
        ended = await finish(process)

    assert [line["collection_id"] for line in lines] == [f"{number:036}" for number in range(2)]
    assert ended.code == 143


async def test_an_unreachable_server_is_not_waited_for() -> None:
    ended = await run("jobs", "--watch", "--server", "127.0.0.1:9")

    assert (ended.code, ended.out) == (4, "")


async def test_a_limit_beyond_one_page_is_refused() -> None:
    for command in ("jobs", "collections"):
        done = await run(command, "--watch", "--limit", "201")
        assert (done.code, "--watch shows 200 at most" in done.err) == (2, True)
