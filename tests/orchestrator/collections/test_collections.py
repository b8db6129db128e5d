"""Many recordings under one request: what is accepted, and what becomes of the members."""

import asyncio
from itertools import count

import grpc
import pytest

from mesh.bus import Bus
from mesh.errors import SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.collections.projection import CollectionEventWriter
from orchestrator.queue.lanes import lane_of
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.collections import (
    addresses,
    collect,
    counts,
    event_log,
    kinds,
    pass_deadline,
    read,
    running_controllers,
    seconds,
    settled,
    states,
    until_states,
    watch,
    watched,
)
from tests.support.polling import still, until
from tests.support.scripted import Script
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2
from ytcaption.v1 import collection_service_pb2 as pb


async def test_each_address_is_a_member_and_an_ordinary_job_of_the_collection(
    client: Client, bus: Bus
) -> None:
    made = await collect(
        client,
        *addresses(3),
        options=job_pb2.JobOptions(language="en"),
        correlation_id="thread",
        caller="me",
        priority=job_pb2.PRIORITY_LOW,
        title="Talks",
    )
    assert (made.state, made.title) == (collection_pb2.COLLECTION_STATE_RUNNING, "Talks")

    collection, members = await settled(client, made.collection_id)

    assert collection.state == collection_pb2.COLLECTION_STATE_COMPLETE
    assert counts(collection) == {"COMPLETED": 3}
    assert (collection.settled, collection.discovery_complete) == (True, True)
    assert [member.source_url for member in members] == addresses(3)
    assert [member.number for member in members] == [1, 2, 3]
    for member in members:
        assert (member.title, member.language, member.attempt) == ("A talk", "en", 1)
        assert (member.duration.seconds, member.HasField("end_time")) == (6, True)
        job = await client.job(member.job_id)
        assert job.source.url == member.source_url
        assert (job.collection_id, job.correlation_id) == (made.collection_id, "thread")
        assert (job.caller, job.priority) == ("me", job_pb2.PRIORITY_LOW)
        assert job.options == collection.options
    events = await event_log(bus, made.collection_id)
    assert events[0].type == event_pb2.EVENT_TYPE_START_COLLECTION
    assert list(events[0].start_collection.addresses) == addresses(3)
    assert (events[0].collection_id, events[0].job_id) == (made.collection_id, "")
    assert kinds(events)["COLLECTION_GATHERED"] == 1
    assert events[-1].type == event_pb2.EVENT_TYPE_COLLECTION_SETTLED


async def test_one_address_is_one_member_and_one_request_one_collection(client: Client) -> None:
    first, again = addresses(2)
    made = await collect(client, first, again, f" {first} ", request_id="mine")
    same = await collect(client, "http://example.test/other.mp3", request_id="mine")

    _, members = await settled(client, made.collection_id)

    assert same.collection_id == made.collection_id
    assert [member.source_url for member in members] == [first, again]


async def test_a_member_that_fails_permanently_fails_alone(client: Client, script: Script) -> None:
    good, private, flaky = addresses(3)
    script.refusals = {
        private: [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)],
        flaky: [UnavailableError("busy", reason=Reason.SITE_ERROR)] * 2,
    }
    made = await collect(client, good, private, flaky, "no address at all")

    collection, members = await settled(client, made.collection_id)

    assert states(members) == ["COMPLETED", "FAILED", "COMPLETED", "FAILED"]
    assert collection.state == collection_pb2.COLLECTION_STATE_PARTIAL
    assert members[1].failure.reason == "VIDEO_PRIVATE"
    assert members[2].attempt == 3, "retries inside a job are the job's affair"
    assert (members[3].failure.reason, members[3].job_id) == ("UNSUPPORTED_URL", "")


async def test_at_most_max_in_flight_members_run_at_once(start: Start, script: Script) -> None:
    script.hanging = set(addresses(5))
    async with start(concurrency=4) as client:
        made = await collect(client, *addresses(5), max_in_flight=2)
        await until_states(client, made.collection_id, RUNNING=2, PENDING=3)
        _, members = await read(client, made.collection_id)
        begun = [member.number for member in members if member.job_id]
        script.go_on.set()
        _, members = await settled(client, made.collection_id)

    assert begun == [1, 2]
    assert states(members) == ["COMPLETED"] * 5
    assert len(script.downloads) == 5


def caller_in_another_lane(collection_id: str) -> str:
    """A caller that does not share the collection's lane: one in sixteen does, and waits in it."""
    taken = lane_of(job_pb2.Job(collection_id=collection_id))
    callers = (f"caller {number}" for number in count())
    return next(name for name in callers if lane_of(job_pb2.Job(caller=name)) != taken)


async def test_single_jobs_take_turns_with_a_large_collection(start: Start, script: Script) -> None:
    script.hanging = {addresses(1)[0]}
    async with start(concurrency=1) as client:
        made = await collect(client, *addresses(8), max_in_flight=8)
        await script.until_paused()
        await until_states(client, made.collection_id, PENDING=7)
        caller = caller_in_another_lane(made.collection_id)
        single = await client.create("http://example.test/single.mp3", caller=caller)
        script.go_on.set()
        await client.finished(single.job_id)
        await settled(client, made.collection_id)

    assert script.downloads.index("http://example.test/single.mp3") in (1, 2)


async def test_collections_are_listed_newest_first_and_read_in_pages(client: Client) -> None:
    made = [await collect(client, "none", "neither", "nor this") for _ in range(3)]
    for one in made:
        await watched(client, one.collection_id)

    first = await client.collections.ListCollections(pb.ListCollectionsRequest(page_size=2))
    rest = await client.collections.ListCollections(
        pb.ListCollectionsRequest(page_size=2, page_token=first.next_page_token)
    )
    page = await client.collections.GetCollection(
        pb.GetCollectionRequest(collection_id=made[0].collection_id, page_size=2)
    )
    last = await client.collections.GetCollection(
        pb.GetCollectionRequest(
            collection_id=made[0].collection_id, page_size=2, page_token=page.next_page_token
        )
    )

    listed = [one.collection_id for one in (*first.collections, *rest.collections)]
    assert listed == [one.collection_id for one in reversed(made)]
    assert rest.next_page_token == last.next_page_token == ""
    assert [member.number for member in (*page.members, *last.members)] == [1, 2, 3]
    assert counts(rest.collections[0]) == {"FAILED": 3}
    for unknown in ("nonsense", "01a1e222-262d-7292-9757-501b145b41af"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read(client, unknown)
        assert reason_of(caught.value) == "COLLECTION_NOT_FOUND"


async def test_reading_a_collection_shows_what_watchers_saw_before_its_record_is_saved(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record follows the event log, which is what watchers see."""

    async def never(self: CollectionEventWriter) -> None:
        await asyncio.Event().wait()

    async def not_now(self: CollectionEventWriter) -> None:
        pass

    monkeypatch.setattr(CollectionEventWriter, "save", never)
    monkeypatch.setattr(CollectionEventWriter, "save_sometimes", not_now)
    made = await collect(client, "none")
    async for seen in watch(client, made.collection_id):
        if seen.collection.discovery_complete:
            break
    request = pb.GetCollectionRequest(collection_id=made.collection_id)
    found = (await client.collections.GetCollection(request)).collection

    assert found.discovery_complete


async def test_collections_beyond_max_collections_wait_in_the_queue(
    start: Start, script: Script
) -> None:
    script.hanging = {addresses(1, f"set-{number}")[0] for number in range(3)}
    async with start(max_collections=1) as client:
        made = [await collect(client, *addresses(2, f"set-{number}")) for number in range(3)]
        await until(lambda: len(script.downloads) == 2)
        downloads = await still(lambda: len(script.downloads))
        begun = [len((await read(client, one.collection_id))[1]) for one in made]
        script.go_on.set()
        ended = [await settled(client, one.collection_id) for one in made]

    assert (downloads, sorted(begun)) == (2, [0, 0, 2])
    assert [counts(collection) for collection, _ in ended] == [{"COMPLETED": 2}] * 3


async def test_members_unfinished_at_the_deadline_time_out_and_are_corrected_when_they_end(
    start: Start, script: Script, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, slow, unbegun = addresses(3)
    script.hanging = {slow}
    controllers = running_controllers(monkeypatch)
    async with start() as client:
        made = await collect(client, quick, slow, unbegun, max_in_flight=1, timeout=seconds(60))
        await until_states(client, made.collection_id, COMPLETED=1, RUNNING=1, PENDING=1)
        pass_deadline(controllers)
        await until_states(client, made.collection_id, COMPLETED=1, TIMED_OUT=2)
        partial, _ = await read(client, made.collection_id)
        assert partial.state == collection_pb2.COLLECTION_STATE_PARTIAL
        assert (partial.HasField("end_time"), partial.settled) == (True, False)
        script.go_on.set()
        collection, members = await settled(client, made.collection_id)

    assert states(members) == ["COMPLETED", "COMPLETED", "TIMED_OUT"]
    assert [member.late for member in members] == [False, True, False]
    assert (members[2].job_id, collection.late_count) == ("", 1)
    assert collection.state == collection_pb2.COLLECTION_STATE_PARTIAL
    assert script.downloads == [quick, slow], "what was not begun in time never is"
    gathered = [
        event.collection_changed.collection
        for event in await event_log(broker_bus, made.collection_id)
        if event.type == event_pb2.EVENT_TYPE_COLLECTION_GATHERED
    ]
    assert [counts(one) for one in gathered] == [{"COMPLETED": 1, "TIMED_OUT": 2}]


async def test_a_late_result_may_still_make_the_collection_complete(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.hanging = {addresses(1)[0]}
    controllers = running_controllers(monkeypatch)
    async with start() as client:
        made = await collect(client, *addresses(2), timeout=seconds(60))
        await until_states(client, made.collection_id, COMPLETED=1, RUNNING=1)
        pass_deadline(controllers)
        await until_states(client, made.collection_id, COMPLETED=1, TIMED_OUT=1)
        script.go_on.set()
        collection, members = await settled(client, made.collection_id)

    assert collection.state == collection_pb2.COLLECTION_STATE_COMPLETE
    assert [member.late for member in members] == [True, False]


async def test_a_member_whose_job_is_deleted_counts_as_cancelled(
    start: Start, script: Script
) -> None:
    gone, stays = addresses(2)
    script.hanging = {gone, stays}
    async with start() as client:
        made = await collect(client, gone, stays)
        await until_states(client, made.collection_id, RUNNING=2)
        _, members = await read(client, made.collection_id)
        await client.delete(members[0].job_id)
        script.go_on.set()
        _, members = await settled(client, made.collection_id)

    assert states(members) == ["CANCELLED", "COMPLETED"]
