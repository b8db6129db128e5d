"""A collector over gRPC: what it finds, how it fails, and that it stops when it is left."""

import asyncio
import signal
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import pytest

from mesh.addresses import free_ports
from mesh.bus import Bus
from mesh.errors import MeshError
from mesh.reasons import Reason
from orchestrator.tasks.types import Collector
from tests.orchestrator.tasks.engines import collecting
from tests.orchestrator.tasks.services import (
    Stranger,
    collector,
    document,
    recording,
    serving,
    status,
    struct,
)
from tests.support.polling import until
from tests.support.processes import stop_process
from ytcaption.v1 import collector_service_pb2 as pb

REQUEST = pb.CollectRequest(task_id="t-1", correlation_id="olá", type="blog", attempt=2)
CODES = grpc.StatusCode
FILE = pb.CollectResponse(file=pb.CollectedFile(file_name="a.mp3"))


async def found_by(engine: Collector) -> list[pb.CollectResponse]:
    async with aclosing(engine.collect(REQUEST)) as found:
        return [one async for one in found]


async def failure_of(engine: Collector) -> MeshError:
    with pytest.raises(MeshError) as caught:
        await found_by(engine)
    return caught.value


async def test_everything_it_finds_arrives_with_its_key(broker_bus: Bus) -> None:
    progress = pb.CollectResponse(progress=pb.TaskProgress(done=1, total=2))
    script = Stranger(
        answers=[
            recording("http://a.test/1", title="Um"),
            document("texto", url="http://a.test/2", metadata=struct({"a": 1})),
            document("sem endereço"),
            pb.CollectResponse(key="k", recording=pb.CollectedRecording(url="http://a.test/3")),
            progress,
            FILE,
            pb.CollectResponse(chunk=b"x" * 65_536),
            progress,
            pb.CollectResponse(chunk=b""),
            pb.CollectResponse(),  # of a later version
        ]
    )
    async with serving(collector(script)) as address, collecting(broker_bus, address) as engine:
        found = await found_by(engine)

    assert [one.WhichOneof("event") for one in found] == [
        "recording",
        "document",
        "document",
        "recording",
        "progress",
        "file",
        "chunk",
        "progress",
        "chunk",
    ]
    assert [one.key for one in found[:4]] == [
        "http://a.test/1",
        "http://a.test/2",
        found[2].key,
        "k",
    ]
    assert len(found[2].key) == 64
    assert script.requests == [REQUEST]
    assert script.metadata[0]["x-correlation-id-bin"] == "olá".encode()


async def test_a_call_ends_after_the_time_of_its_type(broker_bus: Bus) -> None:
    script = Stranger(answers=[asyncio.Event()])
    async with (
        serving(collector(script)) as address,
        collecting(broker_bus, address, task_seconds=0.5) as engine,
    ):

        async def service_was_stopped() -> bool:
            # On a busy machine the time may be over before the service has the call.
            error = await failure_of(engine)
            assert (error.reason, error.retryable) == (Reason.DEADLINE, True)
            return script.cancelled.is_set()

        await until(service_was_stopped)

    assert 0 < script.deadlines[0] <= 0.5


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (status(CODES.UNAVAILABLE, "later", reason="SITE_DOWN"), Reason.COLLECTOR_UNAVAILABLE),
        (status(CODES.RESOURCE_EXHAUSTED, "slow down"), Reason.COLLECTOR_UNAVAILABLE),
        (status(CODES.ABORTED, "again"), Reason.COLLECTOR_UNAVAILABLE),
        (status(CODES.INTERNAL, "bug"), Reason.COLLECTOR_UNAVAILABLE),
        (status(CODES.DEADLINE_EXCEEDED, "too slow"), Reason.DEADLINE),
        (status(CODES.UNKNOWN, "raised"), Reason.COLLECTOR_FAILED),
        (status(CODES.INVALID_ARGUMENT, "no"), Reason.COLLECTOR_FAILED),
        (status(CODES.NOT_FOUND, "gone", reason="BLOG_GONE"), Reason.COLLECTOR_FAILED),
        (status(CODES.UNIMPLEMENTED, "what"), Reason.COLLECTOR_FAILED),
    ],
    ids=lambda value: getattr(value, "message", str(value)),
)
async def test_a_status_half_way_is_retried_or_not_as_the_contract_says(
    broker_bus: Bus, said: Any, reason: Reason
) -> None:
    script = Stranger(answers=[recording("http://a.test/1"), said])
    async with serving(collector(script)) as address, collecting(broker_bus, address) as engine:
        error = await failure_of(engine)

    assert error.reason == reason
    assert error.retryable == (reason != Reason.COLLECTOR_FAILED)
    assert said.message in str(error)


async def test_the_others_reason_words_and_delay_are_passed_on(broker_bus: Bus) -> None:
    said = status(CODES.RESOURCE_EXHAUSTED, "1 a day", reason="DAILY_LIMIT", retry_seconds=90)
    script = Stranger(answers=[recording("http://a.test/1"), said])
    async with serving(collector(script)) as address, collecting(broker_bus, address) as engine:
        error = await failure_of(engine)

    assert str(error) == "collector blog: 1 a day (DAILY_LIMIT)"
    assert error.metadata == {"reason": "DAILY_LIMIT"}
    assert error.retry_after_seconds == 90


@pytest.mark.parametrize(
    "wrong",
    [
        [recording("")],
        [recording("http://a.test/" + "x" * 2048)],
        [recording("http://a.test", title="x" * 1001)],
        [recording("http://a.test", metadata=struct({"a": "x" * 17_000}))],
        [document("x" * 524_289)],
        [document("x", title="x" * 1001)],
        [document("x", metadata=struct({"a": "x" * 17_000}))],
        [pb.CollectResponse(key="x" * 2049, recording=pb.CollectedRecording(url="http://a.test"))],
        [pb.CollectResponse(chunk=b"x")],
        [FILE, pb.CollectResponse(chunk=b"x" * 65_537)],
        [FILE, FILE],
        [FILE, recording("http://a.test")],
        [FILE, pb.CollectResponse(chunk=b"x")],
        [FILE, pb.CollectResponse(chunk=b""), pb.CollectResponse(chunk=b"x")],
        [pb.CollectResponse(file=pb.CollectedFile())],
    ],
)
async def test_what_breaks_the_contract_fails_for_good(broker_bus: Bus, wrong: list[Any]) -> None:
    async with (
        serving(collector(Stranger(answers=wrong))) as address,
        collecting(broker_bus, address) as engine,
    ):
        error = await failure_of(engine)

    assert (error.reason, error.retryable) == (Reason.COLLECTOR_FAILED, False)


async def test_a_text_of_the_largest_size_passes(broker_bus: Bus) -> None:
    script = Stranger(answers=[document("x" * 524_288)])
    async with serving(collector(script)) as address, collecting(broker_bus, address) as engine:
        assert len((await found_by(engine))[0].document.text) == 524_288


async def test_a_reader_that_leaves_stops_the_service(broker_bus: Bus) -> None:
    script = Stranger(answers=[recording("http://a.test/1"), asyncio.Event()])
    async with serving(collector(script)) as address, collecting(broker_bus, address) as engine:
        async with aclosing(engine.collect(REQUEST)) as found:
            await anext(found)
            assert not script.cancelled.is_set()
        async with asyncio.timeout(60):
            await script.cancelled.wait()


async def test_a_reader_that_is_cancelled_stops_the_service_that_never_answers(
    broker_bus: Bus,
) -> None:
    script = Stranger(answers=[asyncio.Event()])
    async with serving(collector(script)) as address, collecting(broker_bus, address) as engine:
        reading = asyncio.create_task(found_by(engine))
        async with asyncio.timeout(60):
            await script.began.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        async with asyncio.timeout(60):
            await script.cancelled.wait()


async def test_a_service_that_streams_too_fast_is_held_back(broker_bus: Bus) -> None:
    total = 400
    script = Stranger(answers=[document("x" * 100_000, url=str(one)) for one in range(total)])
    async with (
        serving(collector(script)) as address,
        collecting(broker_bus, address) as engine,
        aclosing(engine.collect(REQUEST)) as found,
    ):
        await anext(found)
        stood = 0
        while stood < 20:  # until it stands still
            before = script.sent
            await asyncio.sleep(0.05)
            stood = stood + 1 if script.sent == before else 0
        assert script.sent < total / 2
        assert len([one async for one in found]) == total - 1


async def test_calls_go_to_every_replica_and_to_the_living_one(broker_bus: Bus) -> None:
    one, two = Stranger(), Stranger()
    async with serving(collector(one)) as first:
        async with (
            serving(collector(two)) as second,
            collecting(broker_bus, first, second) as engine,
        ):

            async def both_were_called() -> bool:
                await found_by(engine)
                return bool(one.requests and two.requests)

            await until(both_were_called)
            before = len(one.requests), len(two.requests)
            for _ in range(10):
                await found_by(engine)
            assert min(len(one.requests) - before[0], len(two.requests) - before[1]) >= 4
        async with collecting(broker_bus, first, second) as engine:
            count = len(one.requests)
            for _ in range(3):
                await found_by(engine)
            assert len(one.requests) == count + 3


PROGRAM = """
import asyncio, sys, grpc
sys.path.insert(0, sys.argv[2])
from ytcaption.v1 import collector_service_pb2 as pb, collector_service_pb2_grpc as rpc

class Slow(rpc.CollectorServiceServicer):
    async def Collect(self, request, context):
        yield pb.CollectResponse(recording=pb.CollectedRecording(url="http://a.test/1"))
        if request.attempt == 1:
            await asyncio.sleep(600)

async def main():
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    rpc.add_CollectorServiceServicer_to_server(Slow(), server)
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    await server.start()
    await server.wait_for_termination()

asyncio.run(main())
"""


async def test_a_service_that_is_killed_and_comes_back_is_tried_again(broker_bus: Bus) -> None:
    port = free_ports(1)[0]

    async def process() -> asyncio.subprocess.Process:
        gen = str(Path(__file__).parents[3] / "gen")
        return await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, str(port), gen)

    first = pb.CollectRequest(type="blog", attempt=1)
    async with collecting(broker_bus, f"127.0.0.1:{port}") as engine:
        child = await process()
        try:
            found: list[Any] = []

            async def begun() -> bool:
                found[:] = [engine.collect(first)]
                try:
                    await anext(found[0])
                except MeshError:  # it is not listening yet
                    return False
                return True

            await until(begun)
            child.send_signal(signal.SIGKILL)
            with pytest.raises(MeshError) as caught:
                await anext(found[0])
            assert caught.value.reason == Reason.COLLECTOR_UNAVAILABLE
            await child.wait()
            child = await process()

            async def all_of_it() -> bool:
                try:
                    return len(await found_by(engine)) == 1
                except MeshError:  # as before
                    return False

            await until(all_of_it)
        finally:
            await stop_process(child, 60)
