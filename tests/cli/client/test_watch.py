"""Following a job through reconnects: no event is lost or repeated."""

import json
from contextlib import aclosing

import grpc
import pytest

from cli.channel import open_channel
from mesh.addresses import free_ports
from mesh.watching import follow
from tests.support.command import finish, run, start
from tests.support.fake_orchestrator import FakePipeline, serving
from tests.support.job_updates import (
    EVENT_LOG,
    FAILED,
    JOB_ID,
    REPLAYED,
    SUCCEEDED,
    accepted,
    finished,
    progress,
    segment,
)
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub

LONG_EVENT_LOG = [
    *(segment(number, f"word {number}") for number in range(1, 30)),
    finished(30, SUCCEEDED),
]


async def _sequences(address: str, after: int = 0) -> list[int]:
    async with open_channel(address) as channel:
        updates = follow(PipelineServiceStub(channel), JOB_ID, after)
        async with aclosing(updates):
            return [update.sequence async for update in updates if update.sequence]


async def test_reconnects_neither_lose_nor_repeat_an_event() -> None:
    pipeline = FakePipeline(LONG_EVENT_LOG)
    pipeline.cut_after = [0, 3, 1, 7]

    async with serving(pipeline) as address:
        found = await _sequences(address)

    assert found == list(range(1, 31))
    assert pipeline.watches == [0, 0, 3, 4, 11]


async def test_events_a_server_repeats_are_delivered_once() -> None:
    async with serving(FakePipeline([*LONG_EVENT_LOG[:5], *LONG_EVENT_LOG])) as address:
        assert await _sequences(address) == list(range(1, 31))


async def test_a_watch_after_the_last_event_ends() -> None:
    class Ended(FakePipeline):
        """Its watch has no events left."""

        async def WatchJob(self, request, context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202, N802
            yield type(EVENT_LOG[0])(job=SUCCEEDED)

    async with serving(Ended()) as address:
        assert await _sequences(address, after=30) == []


async def test_an_ended_job_is_still_delivered_whole_after_a_reconnect() -> None:
    class Ended(FakePipeline):
        """Its first response says that the job has ended."""

        async def WatchJob(self, request, context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202, N802
            async for update in super().WatchJob(request, context):
                if update.HasField("job"):
                    update.job.CopyFrom(SUCCEEDED)
                yield update

    pipeline = Ended(LONG_EVENT_LOG)
    pipeline.cut_after = [5]

    async with serving(pipeline) as address:
        assert await _sequences(address) == list(range(1, 31))


async def test_a_server_that_never_answered_is_not_waited_for() -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await _sequences(f"127.0.0.1:{free_ports(1)[0]}")


async def test_reconnecting_ends_after_the_patience() -> None:
    pipeline = FakePipeline(LONG_EVENT_LOG)
    pipeline.cut_after = [2]

    async with serving(pipeline) as address, open_channel(address) as channel:
        updates = follow(PipelineServiceStub(channel), JOB_ID, patience_seconds=0)
        with pytest.raises(grpc.aio.AioRpcError):
            _ = [update async for update in updates]


async def test_the_command_resumes_on_a_restarted_server() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    before = FakePipeline(LONG_EVENT_LOG[:10])
    before.stays_open = True
    after = FakePipeline(LONG_EVENT_LOG)

    async with serving(before, listen=address):
        process = await start("watch", JOB_ID, "--server", address)
        assert process.stdout is not None
        first = [await process.stdout.readline() for _ in range(10)]
    async with serving(after, listen=address):
        ended = await finish(process)

    lines = [*b"".join(first).decode().splitlines(), *ended.out.splitlines()]
    assert [line.rpartition("] ")[2] for line in lines] == [f"word {n}" for n in range(1, 30)]
    assert after.watches == [10]
    assert "connection was lost" in ended.err
    assert "connected again" in ended.err


REPLAYED_EVENT_LOG = [
    segment(1, "hello"),
    finished(2, FAILED),
    accepted(3, REPLAYED),
    segment(4, "world"),
    finished(5, SUCCEEDED),
]


@pytest.mark.parametrize("cuts", [[], [1], [2], [3], [5]])
async def test_a_replayed_job_is_followed_through_all_its_runs(cuts: list[int]) -> None:
    pipeline = FakePipeline(REPLAYED_EVENT_LOG)
    pipeline.cut_after = cuts

    async with serving(pipeline) as address:
        assert await _sequences(address) == [1, 2, 3, 4, 5]


async def test_watching_a_replayed_job_ends_as_its_last_run_did() -> None:
    async with serving(FakePipeline(REPLAYED_EVENT_LOG)) as address:
        ended = await run("watch", JOB_ID, "--server", address)

    assert (ended.code, len(ended.out.splitlines())) == (0, 2)


async def test_watch_prints_every_update_as_json() -> None:
    async with serving(FakePipeline([progress(1, 2), *EVENT_LOG])) as address:
        ended = await run("watch", JOB_ID, "--server", address, "--json", "--after", "2")

    updates = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0
    assert [int(update.get("sequence", 0)) for update in updates] == [0, 0, 3, 4]
    assert updates[1]["progress"]["stages"][0]["progress"]["bytes"]["total_bytes"] == "2000"


async def test_watching_a_job_that_fails_gives_its_reason() -> None:
    async with serving(FakePipeline([finished(1, FAILED)])) as address:
        ended = await run("watch", JOB_ID, "--server", address)

    assert (ended.code, ended.err) == (1, "error: the video is private (VIDEO_PRIVATE)\n")
