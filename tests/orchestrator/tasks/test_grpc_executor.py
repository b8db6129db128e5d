"""An executor over gRPC: what it gets and makes, how it fails, and that it stops when left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
import pytest

from mesh.bus import Bus
from mesh.errors import MeshError, UnavailableError
from mesh.reasons import Reason
from orchestrator.tasks.types import Executor
from tests.orchestrator.tasks.engines import executing
from tests.orchestrator.tasks.services import Stranger, executor, serving, status, struct
from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import collector_service_pb2 as collector_pb
from ytcaption.v1 import executor_service_pb2 as pb

START = pb.ExecuteStart(task_id="t-1", correlation_id="c-1", kind="palavras", attempt=1)
RESULT = pb.ExecuteResponse(result=struct({"palavras": 3}))
FILE = pb.ExecuteResponse(file=task_pb2.ResultFile(name="a.csv", media_type="text/csv"))
CHUNK = pb.ExecuteResponse(chunk=b"a,b\n")
ITEMS = [
    pb.ExecuteRequest(member=collection_pb2.Member(number=1)),
    pb.ExecuteRequest(segments=pb.MemberSegments(member=1, text="olá")),
    pb.ExecuteRequest(document=task_pb2.Document(number=1, text="texto")),
    pb.ExecuteRequest(missing=collection_pb2.Member(number=2)),
]


def kinds(*answers: Any, **more: Any) -> Stranger:
    return Stranger(types=("palavras",), answers=list(answers), **more)


async def items(*parts: Any) -> AsyncIterator[pb.ExecuteRequest]:
    """Items in order; an exception is raised, an Event is waited for."""
    for part in parts or ITEMS:
        if isinstance(part, Exception):
            raise part
        if isinstance(part, asyncio.Event):
            await part.wait()
        else:
            yield part


async def answers_of(engine: Executor, *parts: Any) -> list[pb.ExecuteResponse]:
    async with aclosing(engine.execute(START, items(*parts))) as answers:
        return [one async for one in answers]


async def failure_of(engine: Executor, *parts: Any) -> MeshError:
    with pytest.raises(MeshError) as caught:
        await answers_of(engine, *parts)
    return caught.value


async def test_it_gets_every_item_and_its_result_comes_last(broker_bus: Bus) -> None:
    progress = pb.ExecuteResponse(progress=collector_pb.TaskProgress(done=1))
    script = kinds(progress, FILE, CHUNK, CHUNK, pb.ExecuteResponse(), RESULT)
    async with serving(executor(script)) as address, executing(broker_bus, address) as engine:
        answers = await answers_of(engine)

    assert answers == [progress, FILE, CHUNK, CHUNK, RESULT]
    assert script.requests == [pb.ExecuteRequest(start=START), *ITEMS]
    assert script.metadata[0]["x-correlation-id"] == "c-1"


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [FILE, CHUNK],
        [RESULT, RESULT],
        [RESULT, FILE],
        [CHUNK, RESULT],
        [FILE, FILE, RESULT],
        [FILE, pb.ExecuteResponse(chunk=b"x" * 65_537), RESULT],
        [pb.ExecuteResponse(result=struct({"a": "x" * 70_000}))],
        *(
            [pb.ExecuteResponse(file=task_pb2.ResultFile(name=name)), RESULT]
            for name in ("", "..", "a/b", "a\\b", "a\nb", "x" * 201)
        ),
        [
            *(pb.ExecuteResponse(file=task_pb2.ResultFile(name=str(one))) for one in range(101)),
            RESULT,
        ],
    ],
)
async def test_what_breaks_the_contract_fails_for_good(broker_bus: Bus, wrong: list[Any]) -> None:
    async with (
        serving(executor(kinds(*wrong))) as address,
        executing(broker_bus, address) as engine,
    ):
        error = await failure_of(engine)

    assert (error.reason, error.retryable) == (Reason.EXECUTOR_FAILED, False)


async def test_a_status_after_the_result_counts(broker_bus: Bus) -> None:
    script = kinds(RESULT, status(grpc.StatusCode.INTERNAL, "late", reason="LATE"))
    async with serving(executor(script)) as address, executing(broker_bus, address) as engine:
        error = await failure_of(engine)

    assert (error.reason, str(error)) == (
        Reason.EXECUTOR_UNAVAILABLE,
        "executor palavras: late (LATE)",
    )


async def test_an_executor_may_answer_before_it_has_read_everything(broker_bus: Bus) -> None:
    big = pb.ExecuteRequest(document=task_pb2.Document(text="x" * 500_000))
    script = kinds(RESULT)
    async with (
        serving(executor(script, reads=False)) as address,
        executing(broker_bus, address) as engine,
    ):
        for _ in range(10):
            assert await answers_of(engine, *[big] * 20) == [RESULT]


async def test_an_executor_that_refuses_before_it_has_read_everything_is_heard(
    broker_bus: Bus,
) -> None:
    big = pb.ExecuteRequest(document=task_pb2.Document(text="x" * 500_000))
    script = kinds(status(grpc.StatusCode.INVALID_ARGUMENT, "too much", reason="TOO_MUCH"))
    async with (
        serving(executor(script, reads=False)) as address,
        executing(broker_bus, address) as engine,
    ):
        for _ in range(10):
            error = await failure_of(engine, *[big] * 20)
            assert error.reason == Reason.EXECUTOR_FAILED
            assert str(error) == "executor palavras: too much (TOO_MUCH)"


async def test_a_failure_to_read_the_items_is_ours_and_not_the_executors(broker_bus: Bus) -> None:
    ours = UnavailableError("the store is away", reason=Reason.STORAGE_UNAVAILABLE)
    script = kinds(RESULT)
    async with serving(executor(script)) as address, executing(broker_bus, address) as engine:
        error = await failure_of(engine, ITEMS[0], ours)

    assert error is ours


async def test_a_caller_that_leaves_stops_the_executor_and_the_items(broker_bus: Bus) -> None:
    never, stopped = asyncio.Event(), asyncio.Event()
    progress = pb.ExecuteResponse(progress=collector_pb.TaskProgress(done=1))
    script = kinds(progress, asyncio.Event())

    async def endless() -> AsyncIterator[pb.ExecuteRequest]:
        try:
            yield ITEMS[0]
            await never.wait()
        finally:
            stopped.set()

    async with (
        serving(executor(script, reads=False)) as address,
        executing(broker_bus, address) as engine,
    ):
        async with aclosing(engine.execute(START, endless())) as answers:
            await anext(answers)
        async with asyncio.timeout(60):
            await script.cancelled.wait()
            await stopped.wait()


async def test_an_executor_that_never_answers_ends_at_its_time(broker_bus: Bus) -> None:
    script = kinds(asyncio.Event())
    async with (
        serving(executor(script)) as address,
        executing(broker_bus, address, task_seconds=0.5) as engine,
    ):
        assert (await failure_of(engine)).reason == Reason.DEADLINE
