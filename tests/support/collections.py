"""Collections as a caller uses them: one call per action."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.duration import from_milliseconds
from google.protobuf.duration_pb2 import Duration

from mesh.bus import Bus
from mesh.status import reason_of
from orchestrator.collections.controller import CollectionController
from orchestrator.jobs.event_log import EventLogReader
from tests.support.client import Client
from tests.support.polling import until
from ytcaption.v1 import collection_pb2, event_pb2
from ytcaption.v1 import collection_service_pb2 as pb

SOURCE = "http://example.test/playlist"
Collection = collection_pb2.Collection
Member = collection_pb2.Member


def addresses(count: int, stem: str = "talk") -> list[str]:
    return [f"http://example.test/{stem}-{number}.mp3" for number in range(1, count + 1)]


def seconds(amount: float) -> Duration:
    return from_milliseconds(int(amount * 1000))


async def collect(client: Client, *wanted: str, **fields: Any) -> Collection:
    # Most tests want runs of their own.
    request = pb.CreateCollectionRequest(addresses=wanted, **({"force": True} | fields))
    return (await client.collections.CreateCollection(request)).collection


async def watch(
    client: Client, collection_id: str, after: int = 0
) -> AsyncIterator[pb.WatchCollectionResponse]:
    request = pb.WatchCollectionRequest(collection_id=collection_id, after_sequence=after)
    call = client.collections.WatchCollection(request)
    try:
        async for response in call:
            yield response
    finally:
        call.cancel()


async def watched(
    client: Client, collection_id: str, after: int = 0
) -> list[pb.WatchCollectionResponse]:
    """Every response until the collection is settled."""
    async with asyncio.timeout(240):
        return [seen async for seen in watch(client, collection_id, after)]


async def settled(client: Client, collection_id: str) -> tuple[Collection, list[Member]]:
    """The collection and its members once nothing can change."""
    await watched(client, collection_id)
    return await read(client, collection_id)


async def read(client: Client, collection_id: str) -> tuple[Collection, list[Member]]:
    """The collection now, with all its members."""
    found: list[Member] = []
    token = ""
    while True:
        page = await client.collections.GetCollection(
            pb.GetCollectionRequest(collection_id=collection_id, page_size=200, page_token=token)
        )
        found.extend(page.members)
        token = page.next_page_token
        if not token:
            return page.collection, found


async def collection_gone(client: Client, collection_id: str) -> bool:
    try:
        await read(client, collection_id)
    except grpc.aio.AioRpcError as error:
        return reason_of(error) == "COLLECTION_NOT_FOUND"
    return False


def states(members: list[Member]) -> list[str]:
    return [
        collection_pb2.MemberState.Name(member.state).removeprefix("MEMBER_STATE_")
        for member in members
    ]


def counts(collection: Collection) -> dict[str, int]:
    return {
        collection_pb2.MemberState.Name(one.state).removeprefix("MEMBER_STATE_"): one.count
        for one in collection.counts
    }


async def until_states(client: Client, collection_id: str, **wanted: int) -> None:
    """Returns when each state has this many members."""

    async def reached() -> bool:
        _, members = await read(client, collection_id)
        found = Counter(states(members))
        return all(found[state] == count for state, count in wanted.items())

    await until(reached)


def running_controllers(monkeypatch: pytest.MonkeyPatch) -> list[CollectionController]:
    """Every controller that runs from here on in this process."""
    found: list[CollectionController] = []
    run = CollectionController.run

    async def noted(self: CollectionController) -> None:
        found.append(self)
        await run(self)

    monkeypatch.setattr(CollectionController, "run", noted)
    return found


def pass_deadline(controllers: list[CollectionController]) -> None:
    """Moves the deadline to now, so that no test depends on how fast the machine is."""
    for controller in controllers:
        controller._collection.deadline.GetCurrentTime()
        controller._wake.set()


def bring_deadline(controllers: list[CollectionController], seconds: float) -> None:
    """Moves the deadline to so many seconds from now."""
    for controller in controllers:
        deadline = controller._collection.deadline
        deadline.FromDatetime(datetime.now(UTC) + timedelta(seconds=seconds))
        controller._wake.set()


async def event_log(bus: Bus, collection_id: str) -> list[event_pb2.Event]:
    return [event async for _, event in EventLogReader(bus).events(collection_id)]


def kinds(events: list[event_pb2.Event]) -> Counter[str]:
    return Counter(event_pb2.EventType.Name(one.type).removeprefix("EVENT_TYPE_") for one in events)
