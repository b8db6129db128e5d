"""Event streams of collections: in order, resumed, unread, cut off."""

import asyncio
from collections.abc import AsyncGenerator

import httpx2

from gateway.mailbox import Mailbox
from tests.gateway.gathering import ID, Gathering, changed, member, progress, serving_collections
from tests.gateway.http import following, ids, running_gateway, story
from tests.polling import still, until
from ytcaption.v1 import collection_service_pb2 as pb

PATH = f"/collections/{ID}"


async def test_a_stream_tells_changes_in_order_and_ends_when_all_is_settled(
    caller: httpx2.AsyncClient, gathering: Gathering
) -> None:
    await gathering.say(member(1, "running", 3), progress(1, 0.25))
    async with following(caller, PATH) as told:
        before = [await anext(told) for _ in range(3)]
        await gathering.say(
            member(1, "completed", 4), changed(5, "complete", settled=True, member_count=1)
        )
        after = [one async for one in told]

    assert [one.name for one in before] == ["collection", "member", "progress"]
    assert before[2].data == {"number": 1, "job_id": None, "progress": 25.0}
    assert [one.name for one in after] == ["member", "collection", "finished"]
    assert ids(before + after) == [3, 4, 5, 5]
    assert (after[-1].data["state"], after[-1].data["settled"]) == ("complete", True)


async def test_who_comes_back_hears_the_rest_and_after_the_end_is_told_to_stop(
    caller: httpx2.AsyncClient, gathering: Gathering
) -> None:
    await gathering.say(
        member(1, "completed", 3),
        member(2, "failed", 4),
        changed(5, "partial", settled=True),
    )

    whole, rest = await story(caller, PATH), await story(caller, PATH, after=3)
    ended = await caller.get(f"{PATH}/events", params={"last_event_id": 5})

    assert ids(whole) == [3, 4, 5, 5]
    assert ids(rest) == [4, 5, 5]
    assert ended.status_code == 204


async def test_of_figures_nobody_took_in_time_only_the_newest_of_each_member_wait() -> None:
    everything_said = asyncio.Event()

    async def spoken() -> AsyncGenerator[pb.WatchCollectionResponse, None]:
        for step in range(100):
            yield progress(1, step / 100)
            yield progress(2, step / 100)
        yield member(1, "completed", 3)
        everything_said.set()

    def whose(update: pb.WatchCollectionResponse) -> int | None:
        return update.progress.number or None

    mail = Mailbox(spoken(), whose)
    mail.open()
    await asyncio.wait_for(everything_said.wait(), 10)

    assert await mail.next(1) == [member(1, "completed", 3), progress(1, 0.99), progress(2, 0.99)]
    mail.close()


async def test_who_does_not_read_stops_the_orchestrator_from_sending(
    caller: httpx2.AsyncClient, gathering: Gathering
) -> None:
    everybody = 1500
    title = "word " * 4000
    await gathering.say(
        *(member(number, "pending", number, title=title) for number in range(1, everybody)),
        changed(everybody, "complete", settled=True),
    )
    async with caller.stream("GET", f"{PATH}/events") as answer:
        await until(lambda: gathering.sent > 0)
        unread = await still(lambda: gathering.sent)
        told = [line async for line in answer.aiter_lines() if line.startswith("id: ")]

    assert unread < everybody
    assert told[:-1] == [f"id: {number}" for number in range(1, everybody + 1)]


async def test_a_stream_outlives_the_orchestrator() -> None:
    gathering = Gathering()
    await gathering.say(member(1, "running", 3))
    async with serving_collections(gathering) as address:
        gateway = running_gateway(orchestrator=address)
        http = await gateway.__aenter__()
        stream = following(http, PATH)
        told = await stream.__aenter__()
        before = [await anext(told) for _ in range(2)]
    try:
        async with serving_collections(gathering, address):
            await gathering.say(member(1, "completed", 4), changed(5, "complete", settled=True))
            after = [one async for one in told]
    finally:
        await stream.__aexit__(None, None, None)
        await gateway.__aexit__(None, None, None)

    assert ids(before) == [3]
    assert [(one.name, one.id) for one in after if one.id] == [
        ("member", 4),
        ("collection", 5),
        ("finished", 5),
    ]
