"""Many recordings under one request: what is accepted, and what becomes of the members."""

import asyncio

import grpc
import pytest

from mesh.bus import Bus
from mesh.errors import SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.collections.journal import Journal
from tests.client import Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.gatherings import (
    addresses,
    collect,
    counts,
    kinds,
    read,
    seconds,
    settled,
    states,
    story,
    until_states,
    watch,
    watched,
)
from tests.orchestrator.scripted import Script
from tests.polling import still
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
    told = await story(bus, made.collection_id)
    assert told[0].type == event_pb2.EVENT_TYPE_START_COLLECTION
    assert list(told[0].start_collection.addresses) == addresses(3)
    assert (told[0].collection_id, told[0].job_id) == (made.collection_id, "")
    assert kinds(told)["COLLECTION_GATHERED"] == 1
    assert told[-1].type == event_pb2.EVENT_TYPE_COLLECTION_SETTLED


async def test_one_address_is_one_member_and_one_request_one_collection(client: Client) -> None:
    first, again = addresses(2)
    made = await collect(client, first, again, f" {first} ", request_id="mine")
    same = await collect(client, "http://example.test/other.mp3", request_id="mine")

    _, members = await settled(client, made.collection_id)

    assert same.collection_id == made.collection_id
    assert [member.source_url for member in members] == [first, again]


async def test_a_member_that_fails_for_good_fails_alone(client: Client, script: Script) -> None:
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


async def test_no_more_members_are_under_way_than_allowed(start: Start, script: Script) -> None:
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


async def test_single_jobs_get_their_turns_beside_a_big_collection(
    start: Start, script: Script
) -> None:
    script.hanging = {addresses(1)[0]}
    async with start(concurrency=1) as client:
        made = await collect(client, *addresses(8), max_in_flight=8)
        await asyncio.wait_for(script.paused.wait(), 10)
        await until_states(client, made.collection_id, PENDING=7)
        single = await client.create("http://example.test/single.mp3", caller="somebody else")
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


async def test_whoever_heard_the_end_finds_it_in_the_collection(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record follows the story, which is what watchers see."""

    async def never(self: Journal) -> None:
        await asyncio.Event().wait()

    async def not_now(self: Journal) -> None:
        pass

    monkeypatch.setattr(Journal, "save", never)
    monkeypatch.setattr(Journal, "save_sometimes", not_now)
    made = await collect(client, "none")
    async for seen in watch(client, made.collection_id):
        if seen.collection.discovery_complete:
            break
    request = pb.GetCollectionRequest(collection_id=made.collection_id)
    found = (await client.collections.GetCollection(request)).collection

    assert found.discovery_complete


async def test_collections_beyond_what_one_orchestrator_keeps_going_wait_their_turn(
    start: Start, script: Script
) -> None:
    script.hanging = {addresses(1, f"set-{number}")[0] for number in range(3)}
    async with start(max_collections=1) as client:
        made = [await collect(client, *addresses(2, f"set-{number}")) for number in range(3)]
        await asyncio.wait_for(script.paused.wait(), 10)
        downloads = await still(lambda: len(script.downloads))
        begun = [len((await read(client, one.collection_id))[1]) for one in made]
        script.go_on.set()
        ended = [await settled(client, one.collection_id) for one in made]

    assert (downloads, sorted(begun)) == (2, [0, 0, 2])
    assert [counts(collection) for collection, _ in ended] == [{"COMPLETED": 2}] * 3


async def test_what_is_missing_at_the_deadline_is_timed_out_and_corrected_when_it_ends(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    quick, slow, unbegun = addresses(3)
    script.hanging = {slow}
    async with start() as client:
        made = await collect(client, quick, slow, unbegun, max_in_flight=1, timeout=seconds(1.5))
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
        for event in await story(broker_bus, made.collection_id)
        if event.type == event_pb2.EVENT_TYPE_COLLECTION_GATHERED
    ]
    assert [counts(one) for one in gathered] == [{"COMPLETED": 1, "TIMED_OUT": 2}]


async def test_a_late_result_may_still_make_the_collection_complete(
    start: Start, script: Script
) -> None:
    script.hanging = {addresses(1)[0]}
    async with start() as client:
        made = await collect(client, *addresses(2), timeout=seconds(1.5))
        await until_states(client, made.collection_id, COMPLETED=1, TIMED_OUT=1)
        script.go_on.set()
        collection, members = await settled(client, made.collection_id)

    assert collection.state == collection_pb2.COLLECTION_STATE_COMPLETE
    assert [member.late for member in members] == [True, False]


async def test_the_job_of_a_member_that_is_deleted_counts_as_cancelled(
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
