"""Stopping, removing and reviving: what callers and operators do to collections."""

import grpc
import pytest

from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.collections.projection import CollectionEventWriter, Projection
from orchestrator.collections.records import CollectionStore
from orchestrator.jobs.event_log import EventLogReader
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.collections import (
    SOURCE,
    Collection,
    addresses,
    collect,
    collection_gone,
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
    watched,
)
from tests.support.dead_letters import replay
from tests.support.polling import until
from tests.support.scripted import Script
from tests.support.traces import gone, traces
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2
from ytcaption.v1 import collection_service_pb2 as pb

CANCELLED = collection_pb2.COLLECTION_STATE_CANCELLED


async def _cancel(client: Client, collection_id: str, note: str = "") -> Collection:
    request = pb.CancelCollectionRequest(collection_id=collection_id, note=note)
    return (await client.collections.CancelCollection(request)).collection


async def _delete(client: Client, collection_id: str) -> int:
    request = pb.DeleteCollectionRequest(collection_id=collection_id)
    return int((await client.collections.DeleteCollection(request)).jobs_removed)


async def test_a_cancel_note_survives_a_concurrent_save_by_the_controller(
    broker_bus: Bus,
) -> None:
    records, projection, one = CollectionStore(broker_bus), Projection(), new_id()
    asked = Collection(collection_id=one)
    started = event_pb2.Event(
        type=event_pb2.EVENT_TYPE_START_COLLECTION,
        collection_id=one,
        start_collection=event_pb2.StartCollection(title="Talks"),
    )
    projection.apply(1, started)
    versioned = await records.create(collection_pb2.CollectionRecord(collection=asked))
    events = CollectionEventWriter(broker_bus, records, versioned, projection)

    def ask(record: collection_pb2.CollectionRecord) -> bool:
        record.cancel_requested = True
        record.collection.cancel_note = "enough"
        return True

    await records.change(one, ask)
    await events.save()

    found = (await records.get(one)).record
    assert (found.collection.cancel_note, found.cancel_requested) == ("enough", True)
    assert found.collection.title == "Talks"


async def test_cancelling_stops_the_listing_and_every_member_that_has_not_ended(
    start: Start, script: Script
) -> None:
    done, running, *more = addresses(5)
    script.listings = {SOURCE: [done, running, *more]}
    script.pause_listing_at = 4
    script.hanging = {running, *more}
    async with start(concurrency=2) as client:
        made = await collect(client, sources=[SOURCE], max_in_flight=2)
        await until_states(client, made.collection_id, COMPLETED=1, RUNNING=2, PENDING=1)
        stopped = await _cancel(client, made.collection_id, "enough")
        collection, members = await read(client, made.collection_id)
        again = await _cancel(client, made.collection_id, "again")
        job = await client.job(members[1].job_id)

    assert (stopped.state, stopped.settled, stopped.cancel_note) == (CANCELLED, True, "enough")
    assert states(members) == ["COMPLETED", "CANCELLED", "CANCELLED", "CANCELLED"]
    assert (members[3].job_id, collection.discovery_complete) == ("", False)
    assert (job.state, job.cancel_note) == (job_pb2.JOB_STATE_CANCELLED, "enough")
    assert again.cancel_note == "enough", "one that is settled is returned as it is"


async def test_cancelling_after_the_deadline_stops_what_goes_on(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.hanging = set(addresses(1))
    controllers = running_controllers(monkeypatch)
    async with start() as client:
        made = await collect(client, *addresses(2), timeout=seconds(60))
        await until_states(client, made.collection_id, COMPLETED=1, RUNNING=1)
        pass_deadline(controllers)
        await until_states(client, made.collection_id, COMPLETED=1, TIMED_OUT=1)
        stopped = await _cancel(client, made.collection_id)
        _, members = await read(client, made.collection_id)

    assert (stopped.state, stopped.settled) == (CANCELLED, True)
    assert (states(members), members[0].late) == (["CANCELLED", "COMPLETED"], True)


async def test_a_collection_cancelled_while_no_orchestrator_ran_is_stopped_by_the_next(
    start: Start, script: Script, broker_bus: Bus
) -> None:
    def mark(record: collection_pb2.CollectionRecord) -> bool:
        record.cancel_requested = True
        return True

    script.hanging = set(addresses(2))
    async with start() as client:
        made = await collect(client, *addresses(2))
        await until_states(client, made.collection_id, RUNNING=2)
    await CollectionStore(broker_bus).change(made.collection_id, mark)
    async with start() as client:
        collection, _ = await settled(client, made.collection_id)

    assert (collection.state, counts(collection)) == (CANCELLED, {"CANCELLED": 2})


async def test_deleting_removes_every_trace_of_the_collection_and_its_jobs(
    client: Client, bus: Bus, script: Script
) -> None:
    script.hanging = {addresses(2)[1]}
    made = await collect(client, *addresses(3), request_id="mine", max_in_flight=2)
    await until_states(client, made.collection_id, COMPLETED=2, RUNNING=1)
    _, members = await read(client, made.collection_id)

    assert await _delete(client, made.collection_id) == 3

    assert await collection_gone(client, made.collection_id)
    assert not (await client.collections.ListCollections(pb.ListCollectionsRequest())).collections
    for member in members:
        assert await gone(client, member.job_id)
        assert await traces(bus, member.job_id) == []
    assert await traces(bus, made.collection_id) == []
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _delete(client, made.collection_id)
    assert reason_of(caught.value) == "COLLECTION_NOT_FOUND"
    again = await collect(client, *addresses(1), request_id="mine")
    assert again.collection_id != made.collection_id
    await settled(client, again.collection_id)


async def test_a_dead_member_that_is_replayed_ends_well_even_after_all_was_settled(
    client: Client, bus: Bus, script: Script
) -> None:
    private = SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)
    script.refusals = {addresses(2)[1]: [private]}
    made = await collect(client, *addresses(2))
    before, members = await settled(client, made.collection_id)

    await replay(client, members[1].job_id)
    await until_states(client, made.collection_id, COMPLETED=2)
    after, members = await settled(client, made.collection_id)

    assert before.state == collection_pb2.COLLECTION_STATE_PARTIAL
    assert (after.state, after.settled) == (collection_pb2.COLLECTION_STATE_COMPLETE, True)
    assert (members[1].attempt, members[1].HasField("failure")) == (2, False)
    assert kinds(await event_log(bus, made.collection_id))["COLLECTION_SETTLED"] == 2


async def test_a_dead_member_of_a_cancelled_collection_runs_if_it_is_replayed(
    client: Client, script: Script
) -> None:
    dead, hangs = addresses(2)
    script.refusals = {dead: [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]}
    script.hanging = {hangs}
    made = await collect(client, dead, hangs)
    await until_states(client, made.collection_id, FAILED=1, RUNNING=1)
    await _cancel(client, made.collection_id)
    _, members = await read(client, made.collection_id)

    await replay(client, members[0].job_id)
    await until_states(client, made.collection_id, COMPLETED=1, CANCELLED=1)
    collection, _ = await settled(client, made.collection_id)

    assert collection.state == CANCELLED


async def test_stats_count_jobs_and_not_collections(client: Client) -> None:
    made = await collect(client, *addresses(2), request_id="mine")
    await settled(client, made.collection_id)

    async def counted() -> bool:
        stats = await client.admin.GetStats(admin_pb.GetStatsRequest())
        return [(one.state, one.count) for one in stats.jobs] == [(job_pb2.JOB_STATE_SUCCEEDED, 2)]

    await until(counted)


async def test_a_collection_keeps_its_counts_after_retention_removed_its_first_events(
    client: Client, bus: Bus
) -> None:
    made = await collect(client, *addresses(3))
    before, _ = await settled(client, made.collection_id)
    whole = [sequence async for sequence, _ in EventLogReader(bus).events(made.collection_id)]
    subject = bus.names.event(made.collection_id, "*")
    await bus.jetstream.purge_stream(bus.names.events_stream, subject=subject, seq=whole[3])

    after, members = await read(client, made.collection_id)
    (response,) = await watched(client, made.collection_id)

    assert (counts(after), members) == (counts(before), [])
    assert counts(response.collection) == counts(before)
