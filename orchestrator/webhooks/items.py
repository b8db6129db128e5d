"""What is sent: made once, when the event happened, and the same in every attempt."""

import json
from typing import Any

from google.protobuf.json_format import MessageToDict

from ytcaption.v1 import event_pb2, webhook_pb2

TYPES = {
    event_pb2.EVENT_TYPE_JOB_FINISHED: "job.finished",
    event_pb2.EVENT_TYPE_COLLECTION_GATHERED: "collection.gathered",
    event_pb2.EVENT_TYPE_COLLECTION_SETTLED: "collection.settled",
}
KINDS = ("job_finished", "collection_gathered", "collection_settled")
MAX_BODY = 48 * 1024
"""With what is around it, a dead letter takes no more than 64 KiB."""
ROOMY = (("media", "chapters"), ("options", "initial_prompt"), ("options", "hotwords"), ("media",))
"""What is left out, in this order, should a body be too large."""


def item_of(event: event_pb2.Event) -> webhook_pb2.WebhookItem | None:
    """The webhook an event asks for, if it does."""
    if event.type not in TYPES:
        return None
    of_job = event.type == event_pb2.EVENT_TYPE_JOB_FINISHED
    told = event.job_finished.job if of_job else event.collection_changed.collection
    if not told.webhook_url:
        return None
    return webhook_pb2.WebhookItem(
        event_id=event.event_id,
        type=TYPES[event.type],
        url=told.webhook_url,
        job_id=event.job_id if of_job else "",
        collection_id="" if of_job else event.collection_id,
        correlation_id=event.correlation_id,
        body=_body(event, MessageToDict(told, preserving_proto_field_name=True)),
        create_time=event.timestamp,
    )


def _body(event: event_pb2.Event, data: dict[str, Any]) -> bytes:
    content = {
        "type": TYPES[event.type],
        "timestamp": event.timestamp.ToJsonString(),
        "data": data,
    }
    body = _written(content)
    for *path, name in ROOMY:
        if len(body) <= MAX_BODY:
            break
        within = data
        for step in path:
            within = within.get(step, {})
        within.pop(name, None)
        body = _written(content)
    return body


def _written(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def kind_of(item: webhook_pb2.WebhookItem) -> str:
    """The last word of the subject under which its event is stored."""
    return item.type.replace(".", "_")


def told_id(item: webhook_pb2.WebhookItem) -> str:
    """The job or the collection it tells of."""
    return item.job_id or item.collection_id
