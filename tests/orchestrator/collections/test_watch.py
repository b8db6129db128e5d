"""What watchers of a collection get: every change once, and nothing that did not change."""

import asyncio
from collections import Counter

from mesh.bus import Bus
from orchestrator.collections.feed import CollectionFeed
from orchestrator.jobs.event_log import EventLogReader
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.collections import (
    addresses,
    collect,
    counts,
    read,
    until_states,
    watch,
    watched,
)
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb

MANY = 1000


def _kinds(seen: list[pb.WatchCollectionResponse]) -> Counter[str]:
    return Counter(str(one.WhichOneof("update")) for one in seen)


async def test_a_watch_begins_with_the_collection_and_ends_when_it_is_settled(
    client: Client,
) -> None:
    made = await collect(client, *addresses(2))
    seen = await watched(client, made.collection_id)

    assert seen[0].collection.collection_id == made.collection_id
    assert (seen[-1].collection.settled, counts(seen[-1].collection)) == (True, {"COMPLETED": 2})
    stored = [one.sequence for one in seen if one.sequence]
    assert stored == sorted(set(stored))
    ends = [one.member.number for one in seen if one.member.HasField("end_time")]
    assert sorted(ends) == [1, 2]


async def test_a_watch_after_a_sequence_sends_the_newest_state_of_what_changed_since(
    client: Client,
) -> None:
    made = await collect(client, *addresses(3))
    whole = await watched(client, made.collection_id)
    settled_members = [one for one in whole if one.member.HasField("end_time")]
    middle = settled_members[1].sequence

    again = await watched(client, made.collection_id)
    rest = await watched(client, made.collection_id, middle)
    nothing = await watched(client, made.collection_id, whole[-1].sequence)

    assert [one.member.state for one in again if one.HasField("member")] == [
        collection_pb2.MEMBER_STATE_COMPLETED
    ] * 3
    assert [one.sequence for one in rest[1:]] == [
        settled_members[2].sequence,
        whole[-1].sequence,
    ]
    assert [one.WhichOneof("update") for one in nothing] == ["collection"]


async def test_live_progress_of_members_reaches_watchers_and_is_not_stored(
    start: Start, script: Script
) -> None:
    script.pause_before_segment = 3
    async with start() as client:
        made = await collect(client, *addresses(1))
        seen = await _first_figures(client, made.collection_id)
        script.go_on.set()
        assert (seen.sequence, seen.progress.number) == (0, 1)
        assert seen.progress.progress <= 0.5
        await watched(client, made.collection_id)
        again = await watched(client, made.collection_id)

    assert "progress" not in _kinds(again)


async def test_a_watcher_that_joins_while_a_member_is_stalled_gets_its_progress(
    start: Start, script: Script
) -> None:
    script.pause_before_segment = 3
    async with start() as client:
        made = await collect(client, *addresses(1))

        async def stands_still() -> bool:
            _, members = await read(client, made.collection_id)
            return any(member.progress for member in members)

        await until(stands_still)
        seen = await _first_figures(client, made.collection_id)
        script.go_on.set()
    assert (seen.progress.number, 0 < seen.progress.progress <= 0.5) == (1, True)


async def _first_figures(client: Client, collection_id: str) -> pb.WatchCollectionResponse:
    async with asyncio.timeout(60):
        async for seen in watch(client, collection_id):
            if seen.HasField("progress") and seen.progress.progress:
                return seen
    raise AssertionError("no figures")


async def test_a_watcher_of_a_thousand_members_gets_one_message_per_change(
    client: Client, bus: Bus
) -> None:
    """Every address is invalid, so each member ends without a job: two changes each."""
    made = await collect(client, *(f"no address {number}" for number in range(MANY)))
    during = _kinds(await watched(client, made.collection_id))
    after = _kinds(await watched(client, made.collection_id))

    assert MANY <= during["member"] <= 2 * MANY
    assert during["collection"] <= 4, "the collection itself: begun, found, gathered, settled"
    assert after == {"member": MANY, "collection": 2}
    feed = CollectionFeed(bus, EventLogReader(bus), lambda _: None, made.collection_id)
    await feed.read_stored()
    one, other = [[update async for update in feed.watch(after=0)] for _ in range(2)]
    assert len(one) >= MANY
    assert all(first is second for first, second in zip(one, other, strict=True))


async def test_watchers_on_another_replica_see_the_same(start: Start, script: Script) -> None:
    script.hanging = set(addresses(2))
    async with start() as here, start() as there:
        made = await collect(here, *addresses(2))
        await until_states(there, made.collection_id, RUNNING=2)
        seen: list[list[int]] = [[], []]

        async def follow(client: Client, sequences: list[int]) -> None:
            async for one in watch(client, made.collection_id):
                sequences += [one.sequence] if one.sequence else []

        watching = [
            asyncio.create_task(follow(client, sequences))
            for client, sequences in zip((here, there), seen, strict=True)
        ]
        # A watch that begins later has only the newest state of each member.
        await until(lambda: all(len(sequences) >= 2 for sequences in seen))
        script.go_on.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*watching)

    assert seen[0][-4:] == seen[1][-4:]
    assert len(seen[0]) >= 4
