"""Event streams of collections: order, resumption, backpressure, outages."""

import asyncio
from collections.abc import AsyncGenerator

import httpx2

from gateway.sse.buffer import UpdateBuffer
from tests.support.controlled_collections import (
    ID,
    ControlledCollection,
    changed,
    member,
    progress,
    serving_collections,
)
from tests.support.http import all_events, following, ids, running_gateway
from tests.support.polling import still, until
from ytcaption.v1 import collection_service_pb2 as pb

PATH = f"/collections/{ID}"


async def test_a_stream_sends_changes_in_order_and_ends_when_the_collection_is_settled(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    await collection.publish(member(1, "running", 3), progress(1, 0.25))
    async with following(fake_http, PATH) as stream:
        before = [await anext(stream) for _ in range(3)]
        await collection.publish(
            member(1, "completed", 4), changed(5, "complete", settled=True, member_count=1)
        )
        after = [one async for one in stream]

    assert [one.name for one in before] == ["collection", "member", "progress"]
    assert before[2].data == {"number": 1, "job_id": None, "progress": 25.0}
    assert [one.name for one in after] == ["member", "collection", "finished"]
    assert ids(before + after) == [3, 4, 5, 5]
    assert (after[-1].data["state"], after[-1].data["settled"]) == ("complete", True)


async def test_a_resuming_client_gets_the_rest_and_204_after_the_end(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    await collection.publish(
        member(1, "completed", 3),
        member(2, "failed", 4),
        changed(5, "partial", settled=True),
    )

    whole, rest = await all_events(fake_http, PATH), await all_events(fake_http, PATH, after=3)
    ended = await fake_http.get(f"{PATH}/events", params={"last_event_id": 5})

    assert ids(whole) == [3, 4, 5, 5]
    assert ids(rest) == [4, 5, 5]
    assert ended.status_code == 204


async def test_the_buffer_keeps_only_the_newest_progress_of_each_member() -> None:
    all_sent = asyncio.Event()

    async def updates() -> AsyncGenerator[pb.WatchCollectionResponse, None]:
        for step in range(100):
            yield progress(1, step / 100)
            yield progress(2, step / 100)
        yield member(1, "completed", 3)
        all_sent.set()

    def progress_key(update: pb.WatchCollectionResponse) -> int | None:
        return update.progress.number or None

    buffer = UpdateBuffer(updates(), progress_key)
    buffer.open()
    await asyncio.wait_for(all_sent.wait(), 60)

    assert await buffer.next(1) == [
        member(1, "completed", 3),
        progress(1, 0.99),
        progress(2, 0.99),
    ]
    buffer.close()


async def test_a_client_that_does_not_read_stops_the_orchestrator_from_sending(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    members = 1500
    title = "word " * 4000
    await collection.publish(
        *(member(number, "pending", number, title=title) for number in range(1, members)),
        changed(members, "complete", settled=True),
    )
    async with fake_http.stream("GET", f"{PATH}/events") as answer:
        await until(lambda: collection.sent > 0)
        unread = await still(lambda: collection.sent)
        received = [line async for line in answer.aiter_lines() if line.startswith("id: ")]

    assert unread < members
    assert received[:-1] == [f"id: {number}" for number in range(1, members + 1)]


async def test_a_stream_survives_a_restart_of_the_orchestrator() -> None:
    collection = ControlledCollection()
    await collection.publish(member(1, "running", 3))
    async with serving_collections(collection) as address:
        gateway = running_gateway(orchestrator=address)
        http = await gateway.__aenter__()
        stream = following(http, PATH)
        received = await stream.__aenter__()
        before = [await anext(received) for _ in range(2)]
    try:
        async with serving_collections(collection, address):
            await collection.publish(
                member(1, "completed", 4), changed(5, "complete", settled=True)
            )
            after = [one async for one in received]
    finally:
        await stream.__aexit__(None, None, None)
        await gateway.__aexit__(None, None, None)

    assert ids(before) == [3]
    assert [(one.name, one.id) for one in after if one.id] == [
        ("member", 4),
        ("collection", 5),
        ("finished", 5),
    ]
