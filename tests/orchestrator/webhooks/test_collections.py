"""A collection sends its own webhooks, and none for its members."""

from mesh.bus import Bus
from tests.orchestrator.conftest import Start
from tests.orchestrator.webhooks.deliveries import DELIVERED, ON, deliveries, queue_is_empty
from tests.orchestrator.webhooks.receiver import SECRET, Receiver
from tests.support.client import refusal
from tests.support.collections import addresses, collect, settled
from tests.support.polling import until
from tests.support.traces import traces
from ytcaption.v1 import collection_service_pb2 as pb


async def test_a_collection_sends_webhooks_when_gathered_and_settled_and_deletion_removes_them(
    start: Start, receiver: Receiver, broker_bus: Bus
) -> None:
    async with start(**ON) as client:
        made = await collect(client, *addresses(2), webhook_url=receiver.url)
        await settled(client, made.collection_id)
        received = await receiver.wait_for(2)
        await until(lambda: queue_is_empty(broker_bus))
        contents = {str(one.verified()["type"]): one.verified()["data"] for one in received}
        logged = await deliveries(client, collection_id=made.collection_id)

        assert sorted(contents) == ["collection.gathered", "collection.settled"]
        for data in contents.values():
            assert isinstance(data, dict)
            assert data["collection_id"] == made.collection_id
            assert data["state"] == "COLLECTION_STATE_COMPLETE"
            assert data["counts"] == [{"state": "MEMBER_STATE_COMPLETED", "count": 2}]
        assert [found.state for found in logged] == [DELIVERED] * 2

        request = pb.DeleteCollectionRequest(collection_id=made.collection_id)
        await client.collections.DeleteCollection(request)
        assert await traces(broker_bus, made.collection_id) == []
        assert await deliveries(client) == []


async def test_a_collection_with_an_undeliverable_webhook_url_is_refused(
    start: Start, receiver: Receiver
) -> None:
    async with start(webhook_secret=SECRET) as client:
        spec = collect(client, *addresses(1), webhook_url=receiver.url)

        assert await refusal(spec) == "ADDRESS_FORBIDDEN"
