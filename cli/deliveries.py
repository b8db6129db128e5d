"""The log of webhooks: what was sent where, and how it was taken."""

from collections.abc import Sequence
from datetime import UTC

from cli.channel import connected
from cli.exits import Exit
from cli.listing import print_list, read_list
from ytcaption.v1 import admin_service_pb2 as pb


async def list_deliveries(
    address: str, job_id: str, collection_id: str, limit: int, *, as_json: bool
) -> Exit:
    """A table, or one JSON object a line."""
    request = pb.ListWebhookDeliveriesRequest(job_id=job_id, collection_id=collection_id)
    async with connected(address) as server:
        call = server.admin.ListWebhookDeliveries
        found = await read_list(call, request, lambda page: page.deliveries, limit)
    heads = ("of", "what", "state", "happened", "tries", "last answer", "next try", "to")
    print_list(found, heads, _row, as_json=as_json)
    return Exit.OK


def _row(delivery: pb.WebhookDelivery) -> Sequence[str]:
    state = pb.DeliveryState.Name(delivery.state).removeprefix("DELIVERY_STATE_").lower()
    due = delivery.HasField("next_attempt_time")
    return (
        delivery.job_id or delivery.collection_id,
        delivery.type,
        state,
        delivery.create_time.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        str(len(delivery.attempts)),
        _answer(delivery.attempts[-1]) if delivery.attempts else "",
        delivery.next_attempt_time.ToDatetime(UTC).strftime("%H:%M:%S") if due else "",
        delivery.url,
    )


def _answer(attempt: pb.DeliveryAttempt) -> str:
    parts = (str(attempt.status or ""), attempt.error)
    return " ".join(part for part in parts if part)
