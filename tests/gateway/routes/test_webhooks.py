"""Webhooks: the URL of a job, and the list of deliveries."""

from google.protobuf.duration_pb2 import Duration

from tests.support.busy_orchestrator import WebhookRecorder, serving
from tests.support.controlled_collections import (
    ID,
    NEXT_PAGE,
    WebhookDeliveries,
    serving_deliveries,
)
from tests.support.http import running_gateway
from ytcaption.v1 import admin_service_pb2

HOOK = "https://example.test/hook"


async def test_a_job_by_url_and_by_upload_carries_its_webhook_url() -> None:
    recorder = WebhookRecorder()
    async with serving(recorder) as address, running_gateway(orchestrator=address) as http:
        body = {"youtube_url": "https://example.test/1", "webhook_url": HOOK}
        by_address = await http.post("/pipeline", json=body)
        by_file = await http.post("/uploads", params={"webhook_url": HOOK}, content=b"sound")
        job = await http.get("/jobs/one")

    assert (by_address.status_code, by_file.status_code) == (202, 202)
    assert recorder.webhook_urls == [HOOK, HOOK]
    assert job.json()["webhook_url"] == HOOK


async def test_deliveries_are_listed_with_every_attempt() -> None:
    sent = admin_service_pb2.WebhookDelivery(
        event_id="event",
        type="collection.settled",
        url="https://example.test/hook",
        collection_id=ID,
        state=admin_service_pb2.DELIVERY_STATE_DELIVERED,
        attempts=[
            admin_service_pb2.DeliveryAttempt(number=1, error="connection refused"),
            admin_service_pb2.DeliveryAttempt(
                number=2, status=204, duration=Duration(nanos=20_000_000)
            ),
        ],
    )
    deliveries = WebhookDeliveries(sent)
    async with (
        serving_deliveries(deliveries) as address,
        running_gateway(orchestrator=address) as http,
    ):
        query: dict[str, str | int] = {"collection_id": ID, "limit": 5}
        page = (await http.get("/webhooks/deliveries", params=query)).json()

    (found,) = page["deliveries"]
    assert (found["state"], found["collection_id"], found["job_id"]) == ("delivered", ID, None)
    assert [(one["status"], one["error"]) for one in found["attempts"]] == [
        (None, "connection refused"),
        (204, None),
    ]
    assert found["attempts"][1]["seconds"] == 0.02
    assert page["next_page_token"] == NEXT_PAGE
    assert (deliveries.requests[0].collection_id, deliveries.requests[0].page_size) == (ID, 5)
