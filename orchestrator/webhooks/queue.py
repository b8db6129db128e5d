"""The queue of webhooks: one item per final event, until it is delivered or given up."""

import json
from contextlib import suppress
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from nats.js.api import RawStreamMsg

from mesh.bus import Bus
from orchestrator.queue.work_queue import put_once, put_replay
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2, webhook_pb2

TYPES = {
    event_pb2.EVENT_TYPE_JOB_FINISHED: "job.finished",
    event_pb2.EVENT_TYPE_COLLECTION_GATHERED: "collection.gathered",
    event_pb2.EVENT_TYPE_COLLECTION_SETTLED: "collection.settled",
}
KINDS = ("job_finished", "collection_gathered", "collection_settled")
MAX_BODY = 48 * 1024
"""A dead letter with such a body and its envelope fits into 64 KiB."""
LARGE_FIELDS = (
    ("media", "chapters"),
    ("options", "initial_prompt"),
    ("options", "hotwords"),
    ("media",),
)
"""Fields that are left out, in this order, if a body is too large."""


def item_of(event: event_pb2.Event) -> webhook_pb2.WebhookItem | None:
    """The webhook of a final event, if it has a webhook_url; built once, equal in every attempt."""
    if event.type not in TYPES:
        return None
    of_job = event.type == event_pb2.EVENT_TYPE_JOB_FINISHED
    entity = event.job_finished.job if of_job else event.collection_changed.collection
    if not entity.webhook_url:
        return None
    return webhook_pb2.WebhookItem(
        event_id=event.event_id,
        type=TYPES[event.type],
        url=entity.webhook_url,
        job_id=event.job_id if of_job else "",
        collection_id="" if of_job else event.collection_id,
        correlation_id=event.correlation_id,
        body=_body(event, MessageToDict(entity, preserving_proto_field_name=True)),
        create_time=event.timestamp,
        owner=entity.owner,
        group=entity.group,
    )


def _body(event: event_pb2.Event, data: dict[str, Any]) -> bytes:
    content = {
        "type": TYPES[event.type],
        "timestamp": event.timestamp.ToJsonString(),
        "data": data,
    }
    body = _encoded(content)
    for *path, name in LARGE_FIELDS:
        if len(body) <= MAX_BODY:
            break
        within = data
        for step in path:
            within = within.get(step, {})
        within.pop(name, None)
        body = _encoded(content)
    return body


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


async def put_item(bus: Bus, item: webhook_pb2.WebhookItem) -> bool:
    """Stores the item; False if its event has one already."""
    return await put_once(
        bus, bus.names.webhook(item.event_id), item.SerializeToString(), _headers(item)
    )


async def put_again(bus: Bus, item: webhook_pb2.WebhookItem) -> None:
    """Stores the item of a replay; replaces one that was given up but not yet acknowledged."""

    def is_same(there: RawStreamMsg) -> bool:
        return webhook_pb2.WebhookItem.FromString(there.data or b"").attempts == item.attempts

    names, data = bus.names, item.SerializeToString()
    subject = names.webhook(item.event_id)
    await put_replay(bus, names.webhooks_stream, subject, data, _headers(item), is_same)


def _headers(item: webhook_pb2.WebhookItem) -> dict[str, str]:
    # A work queue forgets the id when the broker restarts; then the delivery log is decisive.
    return {"Nats-Msg-Id": f"{item.event_id}.{item.attempts}"}


async def has_event_log(bus: Bus, item: webhook_pb2.WebhookItem) -> bool:
    """Whether the job or collection it is about still exists."""
    subject = bus.names.event(item.job_id or item.collection_id, item.type.replace(".", "_"))
    return await bus.newest(bus.names.events_stream, subject) is not None


async def forget_webhooks(bus: Bus, owner: job_pb2.Job | collection_pb2.Collection) -> None:
    """Removes every webhook of a job or collection; called while its event log is there."""
    if not owner.webhook_url:
        return
    names, id_ = bus.names, owner.job_id if isinstance(owner, job_pb2.Job) else owner.collection_id
    for kind in KINDS:
        async for stored in bus.read(names.events_stream, names.event(id_, kind)):
            with suppress(DecodeError):
                await forget_webhook(bus, event_pb2.Event.FromString(stored.data).event_id)


async def forget_webhook(bus: Bus, event_id: str) -> None:
    """Removes the item, its delivery log and its dead letter."""
    names = bus.names
    where = {
        names.webhooks_stream: names.webhook(event_id),
        names.deliveries_stream: names.delivery(event_id),
        names.dead_letter_stream: names.dead_letter(event_id),
    }
    for stream, subject in where.items():
        await bus.purge(stream, subject)
