"""What collectors and executors bring is bounded; what cannot be taken is refused or retried."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import pytest

from mesh.reasons import Reason
from orchestrator.tasks.intake import MAX_METADATA_BYTES, MAX_TEXT_BYTES
from orchestrator.tasks.results import MAX_ITEM_RESULT_BYTES, MAX_RESULT_BYTES
from tests.orchestrator.conftest import Start
from tests.support.collections import (
    addresses,
    collect,
    pass_deadline,
    running_controllers,
    seconds,
    settled,
)
from tests.support.fixed_types import FixedTypes
from tests.support.polling import until
from tests.support.tasks import (
    Found,
    Made,
    ScriptedCollector,
    ScriptedExecutor,
    collector,
    document,
    executor,
    file,
    recording,
    result,
    source,
    state,
    states,
    struct,
    subtasks,
)
from ytcaption.v1 import collection_pb2, task_pb2

ITEM = task_pb2.EXECUTOR_SCOPE_ITEM
UNENDED = file("a.wav", b"bytes")[:-1]
NAMED = Made(file=task_pb2.ResultFile(name="a"))
DONE = Made(result=struct())


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ([document("http://b.test", "x" * (MAX_TEXT_BYTES + 1))], Reason.TOO_LARGE),
        (
            [document("http://b.test", metadata=struct(a="x" * MAX_METADATA_BYTES))],
            Reason.TOO_LARGE,
        ),
        ([recording("")], Reason.TASK_REFUSED),
        ([Found(chunk=b"bytes of no file")], Reason.TASK_REFUSED),
        ([*UNENDED, recording("http://a.test")], Reason.TASK_REFUSED),
        (file("a.wav", b"12", size_bytes=3), Reason.SIZE_MISMATCH),
        (file("a.wav", bytes(64 * 1024 + 1)), Reason.FRAME_TOO_LARGE),
        (file("a.wav", *[bytes(60_000)] * 40), Reason.TOO_LARGE),
        (
            [document(f"http://b.test/{one}", "x" * 400_000) for one in range(6)],
            Reason.TOO_LARGE,
        ),
    ],
)
async def test_what_a_collector_may_not_bring_ends_its_subtask(
    start: Start, found: Sequence[Found], reason: Reason
) -> None:
    types = FixedTypes([collector("blog", ScriptedCollector(found))])
    async with start(types, max_task_bytes=2_000_000) as client:
        made = await collect(client, source_specs=[source("blog")])
        await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert (state(subtask), subtask.failure.reason) == ("FAILED", reason)
        assert subtask.attempt == 1


async def test_a_stream_that_ends_in_the_middle_of_a_file_is_tried_again(start: Start) -> None:
    types = FixedTypes([collector("disk", ScriptedCollector(UNENDED))])
    async with start(types, max_attempts=2) as client:
        made = await collect(client, source_specs=[source("disk")])
        await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert (subtask.attempt, subtask.failure.reason) == (2, Reason.NETWORK_ERROR)


async def test_a_collector_is_stopped_when_it_found_as_much_as_may_be(start: Start) -> None:
    endless = ScriptedCollector([recording(one) for one in addresses(50)], hangs=True)
    async with start(FixedTypes([collector("blog", endless)])) as client:
        made = await collect(client, source_specs=[source("blog")], max_members=3)
        collection, members = await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert (len(members), state(subtask), subtask.found) == (3, "COMPLETED", 3)
        assert collection.state == collection_pb2.COLLECTION_STATE_COMPLETE
        await until(lambda: endless.running == 0)


@pytest.mark.parametrize(
    ("answers", "reason", "attempts"),
    [
        ([Made(file=task_pb2.ResultFile(name="../a")), DONE], Reason.TASK_REFUSED, 1),
        ([NAMED, Made(chunk=b""), NAMED, DONE], Reason.TASK_REFUSED, 1),
        ([Made(result=struct(a="x" * MAX_RESULT_BYTES))], Reason.TOO_LARGE, 1),
        ([DONE, DONE], Reason.TASK_REFUSED, 1),
        (
            [Made(file=task_pb2.ResultFile(name="a", sha256="00" * 32)), Made(chunk=b""), DONE],
            Reason.NETWORK_ERROR,
            2,
        ),
    ],
)
async def test_what_an_executor_may_not_answer_ends_its_subtask(
    start: Start, answers: Sequence[Made], reason: Reason, attempts: int
) -> None:
    types = FixedTypes([executor("report", ScriptedExecutor(answers))])
    async with start(types, max_attempts=2) as client:
        made = await collect(client, *addresses(1), executors=[result("report")])
        await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert (state(subtask), subtask.failure.reason) == ("FAILED", reason)
        assert subtask.attempt == attempts


async def test_the_result_for_one_item_is_small(start: Start) -> None:
    large = ScriptedExecutor([Made(result=struct(a="x" * MAX_ITEM_RESULT_BYTES))])
    async with start(FixedTypes([executor("each", large, scope=ITEM)])) as client:
        made = await collect(client, *addresses(1), executors=[result("each")])
        await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert subtask.failure.reason == Reason.TOO_LARGE


@dataclass
class Silent(ScriptedExecutor):
    """Ends without a result."""

    async def execute(self, start: object, items: object) -> AsyncGenerator[Made, None]:
        self.starts.append(start)  # type: ignore[arg-type]
        return
        yield


async def test_an_executor_that_ends_without_a_result_is_called_again(start: Start) -> None:
    silent = Silent()
    async with start(FixedTypes([executor("report", silent)]), max_attempts=3) as client:
        made = await collect(client, *addresses(1), executors=[result("report")])
        await settled(client, made.collection_id)
    assert [one.attempt for one in silent.starts] == [1, 2, 3]


async def test_an_attempt_ends_with_its_time(start: Start) -> None:
    slow = ScriptedCollector(hangs=True)
    async with start(FixedTypes([collector("slow", slow, seconds=0.2)]), max_attempts=2) as client:
        made = await collect(client, source_specs=[source("slow")])
        await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert (subtask.attempt, subtask.failure.reason) == (2, Reason.DEADLINE)
    assert slow.stopped == 2


async def test_the_limit_of_a_type_holds_over_all_orchestrators(start: Start) -> None:
    slow = ScriptedCollector(hangs=True)
    types = FixedTypes([collector("slow", slow, at_once=2)])
    async with start(types) as one, start(types):
        made = [await collect(one, source_specs=[source("slow")]) for _ in range(6)]
        await until(lambda: slow.running == 2)
        slow.go_on.set()
        for each in made:
            await settled(one, each.collection_id)
    assert (len(slow.requests), slow.most) == (6, 2)


async def test_an_executor_may_end_late_and_a_second_aggregate_follows(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    controllers = running_controllers(monkeypatch)
    slow = ScriptedExecutor(hangs=True)
    async with start(FixedTypes([executor("slow", slow)])) as client:
        made = await collect(
            client, *addresses(1), executors=[result("slow")], timeout=seconds(40_000)
        )
        await until(lambda: bool(slow.starts))
        pass_deadline(controllers)

        async def timed_out() -> bool:
            return states(await subtasks(client, made.collection_id)) == {"slow": "TIMED_OUT"}

        await until(timed_out)
        slow.go_on.set()
        collection, _ = await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert (state(subtask), subtask.late) == ("COMPLETED", True)
        assert collection.state == collection_pb2.COLLECTION_STATE_COMPLETE
