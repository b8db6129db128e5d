"""Who is told of an end, and what became of telling them."""

from google.protobuf.duration_pb2 import Duration

from tests.gateway.gathering import ID, MORE, Deliveries, serving_deliveries
from tests.gateway.http import running_gateway
from tests.gateway.stand_in import Accepting, serving
from ytcaption.v1 import admin_service_pb2

HOOK = "https://example.test/hook"


async def test_whoever_hands_in_a_job_may_say_who_is_told_of_its_end() -> None:
    accepting = Accepting()
    async with serving(accepting) as address, running_gateway(orchestrator=address) as http:
        wish = {"youtube_url": "https://example.test/1", "webhook_url": HOOK}
        by_address = await http.post("/pipeline", json=wish)
        by_file = await http.post("/uploads", params={"webhook_url": HOOK}, content=b"sound")
        looked_at = await http.get("/jobs/one")

    assert (by_address.status_code, by_file.status_code) == (202, 202)
    assert accepting.told == [HOOK, HOOK]
    assert looked_at.json()["webhook_url"] == HOOK


async def test_deliveries_of_webhooks_are_told_with_every_attempt() -> None:
    sent = admin_service_pb2.WebhookDelivery(
        event_id="event",
        type="collection.settled",
        url="https://example.test/hook",
        collection_id=ID,
        state=admin_service_pb2.DELIVERY_STATE_DELIVERED,
        attempts=[
            admin_service_pb2.DeliveryAttempt(number=1, error="nobody answered"),
            admin_service_pb2.DeliveryAttempt(
                number=2, status=204, duration=Duration(nanos=20_000_000)
            ),
        ],
    )
    deliveries = Deliveries(sent)
    async with (
        serving_deliveries(deliveries) as address,
        running_gateway(orchestrator=address) as http,
    ):
        wish: dict[str, str | int] = {"collection_id": ID, "limit": 5}
        page = (await http.get("/webhooks/deliveries", params=wish)).json()

    (found,) = page["deliveries"]
    assert (found["state"], found["collection_id"], found["job_id"]) == ("delivered", ID, None)
    assert [(one["status"], one["error"]) for one in found["attempts"]] == [
        (None, "nobody answered"),
        (204, None),
    ]
    assert found["attempts"][1]["seconds"] == 0.02
    assert page["next_page_token"] == MORE
    assert (deliveries.asked[0].collection_id, deliveries.asked[0].page_size) == (ID, 5)
