"""Helpers of webhook tests."""

from typing import Any

from mesh.bus import Bus
from mesh.correlation import new_id
from tests.orchestrator.webhooks.receiver import SECRET
from tests.support.client import Client
from tests.support.polling import until
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2

PATIENCE_SECONDS = 77
"""Unlike every other timeout, so that tests can let it pass."""
ON: dict[str, Any] = {
    "webhook_secret": SECRET,
    "webhook_private": True,
    "webhook_seconds": PATIENCE_SECONDS,
}
QUICK: dict[str, Any] = ON | {"webhook_backoff": "0.05,0.1"}
PENDING = pb.DELIVERY_STATE_PENDING
DELIVERED = pb.DELIVERY_STATE_DELIVERED
DEAD = pb.DELIVERY_STATE_DEAD


async def deliveries(client: Client, **wanted: Any) -> list[pb.WebhookDelivery]:
    request = pb.ListWebhookDeliveriesRequest(**wanted)
    return list((await client.admin.ListWebhookDeliveries(request)).deliveries)


async def delivery(
    client: Client, state: "pb.DeliveryState.ValueType", attempts: int = 0, **wanted: Any
) -> pb.WebhookDelivery:
    """The only delivery, once it is in that state and has that many attempts."""
    found: list[pb.WebhookDelivery] = []

    async def there() -> bool:
        found[:] = await deliveries(client, **wanted)
        return bool(found) and found[0].state == state and len(found[0].attempts) >= attempts

    await until(there)
    assert len(found) == 1
    return found[0]


async def publish_job_finished(bus: Bus, url: str, owner: str = "") -> event_pb2.Event:
    """Publishes the final event of a job that has no record."""
    job_id = new_id()
    job = job_pb2.Job(
        job_id=job_id, webhook_url=url, state=job_pb2.JOB_STATE_SUCCEEDED, owner=owner
    )
    event = event_pb2.Event(
        event_id=new_id(),
        correlation_id="thread-7",
        type=event_pb2.EVENT_TYPE_JOB_FINISHED,
        job_id=job_id,
        job_finished=event_pb2.JobFinished(job=job),
    )
    event.timestamp.GetCurrentTime()
    await bus.publish(bus.names.event(job_id, "job_finished"), event.SerializeToString())
    return event


async def publish_collection_event(bus: Bus, kind: str, url: str) -> event_pb2.Event:
    """Publishes that a collection was gathered or settled."""
    collection = collection_pb2.Collection(
        collection_id=new_id(), webhook_url=url, state=collection_pb2.COLLECTION_STATE_PARTIAL
    )
    event = event_pb2.Event(
        event_id=new_id(),
        type=event_pb2.EventType.Value(f"EVENT_TYPE_{kind.upper()}"),
        collection_id=collection.collection_id,
        collection_changed=event_pb2.CollectionChanged(collection=collection),
    )
    event.timestamp.GetCurrentTime()
    subject = bus.names.event(collection.collection_id, kind)
    await bus.publish(subject, event.SerializeToString())
    return event


async def queue_is_empty(bus: Bus) -> bool:
    info = await bus.jetstream.stream_info(bus.names.webhooks_stream)
    return not info.state.messages
