"""Collectors and executors of a collection: what they find and make, and how they fail."""

from hashlib import sha256

import grpc
import pytest

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, UnavailableError
from mesh.reasons import Reason
from mesh.status import reason_of
from tests.orchestrator.conftest import Start
from tests.support.collections import (
    addresses,
    bring_deadline,
    collect,
    counts,
    event_log,
    kinds,
    pass_deadline,
    read,
    running_controllers,
    seconds,
    settled,
    watched,
)
from tests.support.fixed_types import FixedTypes
from tests.support.polling import until
from tests.support.tasks import (
    Made,
    ScriptedCollector,
    ScriptedExecutor,
    collector,
    document,
    documents,
    executor,
    file,
    recording,
    result,
    source,
    state,
    states,
    struct,
    subtasks,
    traces,
)
from ytcaption.v1 import admin_service_pb2, collection_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as pb

COMPLETE = collection_pb2.COLLECTION_STATE_COMPLETE
PARTIAL = collection_pb2.COLLECTION_STATE_PARTIAL
ITEM = task_pb2.EXECUTOR_SCOPE_ITEM
BROKEN_OFF = UnavailableError("it hung up", reason=Reason.NETWORK_ERROR)


async def test_what_collectors_find_becomes_members_and_documents(start: Start) -> None:
    talks = ScriptedCollector([recording(one, title=f"T {one}") for one in addresses(3)])
    blog = ScriptedCollector([document("http://blog.test/1", "First"), recording(addresses(1)[0])])
    types = FixedTypes([collector("talks", talks), collector("blog", blog)])
    async with start(types) as client:
        made = await collect(
            client,
            source_specs=[source("talks", year=2025), source("blog")],
            from_date="2025-10-01",
        )
        collection, members = await settled(client, made.collection_id)

        assert collection.state == COMPLETE
        assert counts(collection) == {"COMPLETED": 3}  # an address is one member, however often
        assert sorted(one.source_url for one in members) == addresses(3)
        assert (collection.subtask_count, collection.document_count) == (2, 1)
        found = await subtasks(client, made.collection_id)
        assert {one.type: one.found for one in found} == {"talks": 3, "blog": 2}
        assert states(found) == {"talks": "COMPLETED", "blog": "COMPLETED"}
        (text,) = await documents(client, made.collection_id)
        assert (text.number, text.text, text.url) == (1, "First", "http://blog.test/1")
    (request,) = talks.requests
    assert request.parameters == struct(year=2025)
    assert (request.from_date, request.attempt) == ("2025-10-01", 1)


async def test_an_unknown_type_is_refused_and_the_known_ones_are_named(start: Start) -> None:
    async with start(FixedTypes([collector("blog", ScriptedCollector())])) as client:
        for fields in (
            {"source_specs": [source("blob")]},
            {"source_specs": [source("blog")], "executors": [result("report")]},
        ):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await collect(client, **fields)
            assert reason_of(error.value) == Reason.TYPE_UNKNOWN
            assert "known: " in str(error.value.details())


async def test_what_was_found_before_a_retry_is_found_once(start: Start) -> None:
    blog = ScriptedCollector(
        [document("http://blog.test/1"), recording(addresses(1)[0])], [BROKEN_OFF, BROKEN_OFF]
    )
    async with start(FixedTypes([collector("blog", blog)])) as client:
        made = await collect(client, source_specs=[source("blog")])
        collection, members = await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert (state(subtask), subtask.attempt, subtask.found) == ("COMPLETED", 3, 2)
        assert (len(members), collection.document_count) == (1, 1)
    assert [one.attempt for one in blog.requests] == [1, 2, 3]


async def test_a_refusal_ends_a_subtask_with_a_dead_letter_that_can_be_replayed(
    start: Start,
) -> None:
    refusal = InvalidRequestError("no such blog")
    blog = ScriptedCollector([recording(addresses(1)[0])], [refusal])
    async with start(FixedTypes([collector("blog", blog)])) as client:
        made = await collect(client, source_specs=[source("blog")])
        collection, _ = await settled(client, made.collection_id)
        assert collection.state == PARTIAL
        (subtask,) = await subtasks(client, made.collection_id)
        assert (state(subtask), subtask.failure.reason) == ("FAILED", Reason.TASK_REFUSED)
        request = admin_service_pb2.ListDeadLettersRequest()
        (letter,) = (await client.admin.ListDeadLetters(request)).dead_letters
        assert (letter.letter_id, letter.collection_id) == (subtask.task_id, made.collection_id)

        await client.admin.ReplayDeadLetter(
            admin_service_pb2.ReplayDeadLetterRequest(job_id=letter.letter_id)
        )

        async def complete() -> bool:
            collection, _ = await read(client, made.collection_id)
            return collection.state == COMPLETE and collection.settled

        await until(complete)
        assert not (await client.admin.ListDeadLetters(request)).dead_letters


async def test_a_slow_type_blocks_no_other(start: Start) -> None:
    slow = ScriptedCollector(hangs=True)
    quick = ScriptedCollector([document("http://blog.test/1")])
    types = FixedTypes([collector("slow", slow, at_once=1), collector("quick", quick)])
    async with start(types) as client:
        waiting = [await collect(client, source_specs=[source("slow")]) for _ in range(3)]
        made = await collect(client, source_specs=[source("quick")])
        collection, _ = await settled(client, made.collection_id)
        assert collection.state == COMPLETE
        await until(lambda: slow.running == 1)
        slow.go_on.set()
        for one in waiting:
            await settled(client, one.collection_id)
    assert slow.most == 1  # over all orchestrators


async def test_a_file_that_a_collector_sends_is_captioned_like_an_upload(
    start: Start,
) -> None:
    sent = [bytes(32_000) for _ in range(3)]
    engine = ScriptedCollector(file("talk.wav", *sent, title="A talk"), [BROKEN_OFF])
    async with start(FixedTypes([collector("disk", engine)])) as client:
        made = await collect(client, source_specs=[source("disk")])
        collection, (member,) = await settled(client, made.collection_id)
        assert collection.state == COMPLETE
        assert member.source_url == "upload:1/file-1/talk.wav"
        job = await client.job(member.job_id)
        digest = sha256(b"".join(sent)).hexdigest()
        assert (job.source.upload.file_name, job.source.upload.sha256) == ("talk.wav", digest)


async def test_executors_of_items_get_each_item_and_those_of_collections_all(
    start: Start,
) -> None:
    blog = ScriptedCollector([document("http://blog.test/1", "First")])
    each, whole = ScriptedExecutor(), ScriptedExecutor()
    types = FixedTypes(
        [
            collector("blog", blog),
            executor("each", each, scope=ITEM, segments=True),
            executor("whole", whole),
        ]
    )
    async with start(types) as client:
        made = await collect(
            client,
            *addresses(2),
            source_specs=[source("blog")],
            executors=[result("each"), result("whole")],
        )
        collection, members = await settled(client, made.collection_id)
        found = await subtasks(client, made.collection_id)

        assert collection.state == COMPLETE
        targets = sorted((one.member, one.document) for one in found if one.type == "each")
        assert targets == [(0, 1), (1, 0), (2, 0)]
        (last,) = [one for one in found if one.type == "whole"]
        assert dict(last.result) == {"member": 2, "segments": 2, "document": 1}
        assert last.end_time.ToNanoseconds() >= max(one.end_time.ToNanoseconds() for one in members)
    (items,) = whole.items
    assert [one.document.text for one in items if one.HasField("document")] == ["First"]


async def test_files_and_the_result_of_an_executor_can_be_read(start: Start) -> None:
    content = b"# Report\n" * 20_000
    answers = [
        Made(file=task_pb2.ResultFile(name="report.md", media_type="text/markdown")),
        *(Made(chunk=content[at : at + 60_000]) for at in range(0, len(content), 60_000)),
        Made(chunk=b""),
        Made(result=struct(pages=2)),
    ]
    types = FixedTypes([executor("report", ScriptedExecutor(answers))])
    async with start(types) as client:
        made = await collect(client, *addresses(1), executors=[result("report")])
        await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert dict(subtask.result) == {"pages": 2}
        (kept,) = subtask.files
        assert (kept.size_bytes, kept.sha256) == (len(content), sha256(content).hexdigest())
        call = client.collections.GetResultFile(
            pb.GetResultFileRequest(collection_id=made.collection_id, subtask=1, name="report.md")
        )
        responses = [one async for one in call]
        assert responses[0].file == kept
        assert b"".join(one.chunk for one in responses) == content


async def test_cancelling_stops_tasks_that_run_and_tasks_that_wait(start: Start) -> None:
    slow, waiting = ScriptedCollector(hangs=True), ScriptedCollector(failures=[BROKEN_OFF])
    types = FixedTypes([collector("slow", slow), collector("waiting", waiting)])
    async with start(types, retry_seconds=300) as client:
        made = await collect(client, source_specs=[source("slow"), source("waiting")])
        await until(lambda: slow.running == 1 and len(waiting.requests) == 1)
        await until(lambda: not waiting.running)
        cancelled = (
            await client.collections.CancelCollection(
                pb.CancelCollectionRequest(collection_id=made.collection_id)
            )
        ).collection
        assert cancelled.state == collection_pb2.COLLECTION_STATE_CANCELLED
        found = await subtasks(client, made.collection_id)
        assert states(found) == {"slow": "CANCELLED", "waiting": "CANCELLED"}
        assert (slow.stopped, slow.running) == (1, 0)


async def test_deleting_a_collection_leaves_no_trace_of_its_tasks(
    start: Start, broker_bus: Bus
) -> None:

    blog = ScriptedCollector(
        [document("http://blog.test/1"), *file("talk.wav", bytes(32_000))],
        [InvalidRequestError("no more")],
    )
    report = ScriptedExecutor(
        [Made(file=task_pb2.ResultFile(name="a")), Made(chunk=b"x"), Made(result=struct())]
    )
    types = FixedTypes([collector("blog", blog), executor("report", report)])
    async with start(types) as client:
        made = await collect(client, source_specs=[source("blog")], executors=[result("report")])
        await settled(client, made.collection_id)
        ids = [one.task_id for one in await subtasks(client, made.collection_id)]
        assert await traces(broker_bus, *ids)
        await client.collections.DeleteCollection(
            pb.DeleteCollectionRequest(collection_id=made.collection_id)
        )
        assert await traces(broker_bus, *ids) == []
        objects = f"OBJ_{broker_bus.names.artifacts_bucket}"
        assert (await broker_bus.state(objects)).messages == 0


async def test_at_the_deadline_collectors_stop_and_executors_run_on_what_is_there(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ScriptedCollector([document("http://blog.test/1")])
    never, report = ScriptedCollector(hangs=True), ScriptedExecutor()
    types = FixedTypes(
        [collector("blog", found), collector("never", never), executor("report", report)]
    )
    controllers = running_controllers(monkeypatch)
    async with start(types, executor_margin_seconds=10_000) as client:
        made = await collect(
            client,
            source_specs=[source("blog"), source("never")],
            executors=[result("report")],
            timeout=seconds(40_000),
        )

        async def reached(**wanted: str) -> bool:
            there = states(await subtasks(client, made.collection_id))
            return wanted.items() <= there.items()

        await until(lambda: reached(blog="COMPLETED", never="RUNNING"))
        bring_deadline(controllers, 9_000)
        await until(lambda: reached(report="COMPLETED"))
        pass_deadline(controllers)
        collection, _ = await settled(client, made.collection_id)
        assert collection.state == PARTIAL
        assert states(await subtasks(client, made.collection_id)) == {
            "blog": "COMPLETED",
            "never": "TIMED_OUT",
            "report": "COMPLETED",
        }
        assert never.stopped == 1
    (items,) = report.items
    assert [one.WhichOneof("event") for one in items] == ["document"]


async def test_at_the_deadline_an_item_that_no_executor_was_begun_for_is_timed_out(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.collections.subtasks.MAX_OPEN", 1)
    blog = ScriptedCollector([document(f"http://blog.test/{number}") for number in range(3)])
    each = ScriptedExecutor(hangs=True)
    types = FixedTypes([collector("blog", blog), executor("each", each, scope=ITEM)])
    controllers = running_controllers(monkeypatch)
    async with start(types) as client:
        made = await collect(
            client,
            source_specs=[source("blog")],
            executors=[result("each")],
            timeout=seconds(40_000),
        )

        async def begun() -> bool:
            there = await subtasks(client, made.collection_id)
            return [state(one) for one in there] == ["COMPLETED", "RUNNING"]

        await until(begun)
        pass_deadline(controllers)

        async def timed_out() -> bool:
            there = await subtasks(client, made.collection_id)
            return [state(one) for one in there[1:]] == ["TIMED_OUT"] * 3

        await until(timed_out)
        there = await subtasks(client, made.collection_id)
        assert [one.document for one in there] == [0, 1, 2, 3]
        assert [one.HasField("end_time") for one in there] == [True, False, True, True]
        each.go_on.set()
        collection, _ = await settled(client, made.collection_id)
        assert collection.state == PARTIAL


async def test_what_a_replayed_collector_finds_becomes_members_of_the_ended_collection(
    start: Start,
) -> None:
    blog = ScriptedCollector([], [InvalidRequestError("not yet")])
    async with start(FixedTypes([collector("blog", blog)])) as client:
        made = await collect(client, source_specs=[source("blog")])
        collection, members = await settled(client, made.collection_id)
        assert (collection.state, members) == (PARTIAL, [])
        (failed,) = await subtasks(client, made.collection_id)
        blog.found = [recording(addresses(1)[0]), document("http://blog.test/1")]

        await client.admin.ReplayDeadLetter(
            admin_service_pb2.ReplayDeadLetterRequest(job_id=failed.task_id)
        )

        async def complete() -> bool:
            collection, _ = await read(client, made.collection_id)
            return collection.state == COMPLETE and collection.settled

        await until(complete)
        collection, members = await read(client, made.collection_id)
        assert [one.state for one in members] == [collection_pb2.MEMBER_STATE_COMPLETED]
        assert collection.document_count == 1


async def test_a_watch_has_subtasks_and_documents_without_their_texts(start: Start) -> None:
    blog = ScriptedCollector([document("http://blog.test/1", "Secretly long")])
    async with start(FixedTypes([collector("blog", blog)])) as client:
        made = await collect(client, source_specs=[source("blog")])
        seen = await watched(client, made.collection_id)
        found = [one.document for one in seen if one.HasField("document")]
        assert [(one.number, one.url, one.text) for one in found] == [(1, "http://blog.test/1", "")]
        last = [one.subtask for one in seen if one.HasField("subtask")][-1]
        assert (state(last), last.found) == ("COMPLETED", 1)
        # Whoever comes later gets the newest state of each part once.
        again = await watched(client, made.collection_id)
        assert [one.subtask for one in again if one.HasField("subtask")] == [last]
        assert [one.document for one in again if one.HasField("document")] == found


async def test_a_collection_without_tasks_is_as_it_was_before_there_were_any(
    start: Start, broker_bus: Bus
) -> None:
    async with start() as client:
        made = await collect(client, *addresses(2))
        await settled(client, made.collection_id)
    appended = kinds(await event_log(broker_bus, made.collection_id))
    assert set(appended) == {
        "START_COLLECTION",
        "MEMBER_CHANGED",
        "COLLECTION_CHANGED",
        "COLLECTION_GATHERED",
        "COLLECTION_SETTLED",
    }
    assert appended["COLLECTION_CHANGED"] == 1  # its addresses were listed
    assert (await broker_bus.state("YTC_TASKS")).last_seq == 0
