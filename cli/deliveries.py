"""The log of webhooks: what was sent where, and how it was taken."""

from collections.abc import Sequence
from datetime import UTC

import click

from cli.channel import UNARY_SECONDS, connected
from cli.exits import Exit
from cli.jobs import PAGE_SIZE
from cli.reporting import as_dict
from cli.tables import print_table
from cli.text import to_json
from mesh.correlation import call_metadata
from ytcaption.v1 import admin_service_pb2 as pb


async def list_deliveries(
    address: str, job_id: str, collection_id: str, limit: int, *, as_json: bool
) -> Exit:
    """A table, or one JSON object a line."""
    found: list[pb.WebhookDelivery] = []
    async with connected(address) as server:
        token = ""
        while len(found) < limit:
            request = pb.ListWebhookDeliveriesRequest(
                page_size=min(PAGE_SIZE, limit - len(found)),
                page_token=token,
                job_id=job_id,
                collection_id=collection_id,
            )
            page = await server.admin.ListWebhookDeliveries(
                request, timeout=UNARY_SECONDS, metadata=call_metadata()
            )
            found.extend(page.deliveries)
            token = page.next_page_token
            if not token:
                break
    if as_json:
        for delivery in found[:limit]:
            click.echo(to_json(as_dict(delivery)))
    else:
        heads = ("of", "what", "state", "happened", "tries", "last answer", "next try", "to")
        print_table(heads, [_row(one) for one in found[:limit]])
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
