"""Webhooks for ended jobs and collections are sent until the receiver accepts them."""

from datetime import UTC, timedelta

import pytest

from mesh.bus import Bus
from tests.orchestrator.conftest import Start
from tests.orchestrator.webhooks.deliveries import (
    DEAD,
    DELIVERED,
    ON,
    PATIENCE_SECONDS,
    PENDING,
    QUICK,
    delivery,
    publish_collection_event,
    publish_job_finished,
    queue_is_empty,
)
from tests.orchestrator.webhooks.receiver import HANG, Receiver, Reply, receiving
from tests.support.dead_letters import letters, private, replay
from tests.support.polling import until
from tests.support.scripted import Script
from tests.support.timeouts import Timeouts
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2, webhook_pb2


async def test_the_webhook_of_a_finished_job_is_signed_and_logged(
    start: Start, receiver: Receiver, broker_bus: Bus
) -> None:
    async with start(**ON) as client:
        job = await client.create(webhook_url=receiver.url, correlation_id="thread-7")
        end = (await client.events(job.job_id))[-1]
        (received,) = await receiver.wait_for(1)
        logged = await delivery(client, DELIVERED)
        await until(lambda: queue_is_empty(broker_bus))

    content = received.verified()
    data = content["data"]
    assert (received.id, content["type"]) == (end.event_id, "job.finished")
    assert content["timestamp"] == end.timestamp.ToJsonString()
    assert isinstance(data, dict)
    assert data["job_id"] == job.job_id
    assert (data["state"], data["correlation_id"]) == ("JOB_STATE_SUCCEEDED", "thread-7")
    assert received.headers["content-type"] == "application/json"
    assert (logged.event_id, logged.type, logged.url) == (received.id, "job.finished", receiver.url)
    assert (logged.job_id, logged.collection_id) == (job.job_id, "")
    assert logged.create_time == end.timestamp
    assert [(a.number, a.status, a.error) for a in logged.attempts] == [(1, 200, "")]
    assert not logged.HasField("next_attempt_time")


async def test_a_job_without_a_webhook_url_sends_nothing(
    start: Start, receiver: Receiver, broker_bus: Bus
) -> None:
    async with start(**ON) as client:
        await client.finished((await client.create()).job_id)
        await client.finished((await client.create(webhook_url=receiver.url)).job_id)
        await delivery(client, DELIVERED)  # the only one

    assert len(receiver.received) == 1


@pytest.mark.parametrize("kind", ["collection_gathered", "collection_settled"])
async def test_a_gathered_and_a_settled_collection_each_send_a_webhook(
    start: Start, receiver: Receiver, broker_bus: Bus, kind: str
) -> None:
    async with start(**ON) as client:
        event = await publish_collection_event(broker_bus, kind, receiver.url)
        (received,) = await receiver.wait_for(1)
        logged = await delivery(client, DELIVERED, collection_id=event.collection_id)

    content = received.verified()
    assert content["type"] == logged.type == kind.replace("_", ".")
    assert content["data"] == {
        "collection_id": event.collection_id,
        "webhook_url": receiver.url,
        "state": "COLLECTION_STATE_PARTIAL",
    }
    assert (logged.job_id, received.id) == ("", event.event_id)


async def test_a_webhook_is_retried_under_the_same_id_after_an_error_and_a_timeout(
    start: Start, receiver: Receiver, broker_bus: Bus, patience: Timeouts
) -> None:
    receiver.answer(500, HANG, 204)
    async with start(**QUICK) as client:
        event = await publish_job_finished(broker_bus, receiver.url)
        await receiver.wait_for(2)
        patience.expire()
        logged = await delivery(client, DELIVERED)
        assert await letters(client) == []

    assert [received.id for received in receiver.received] == [event.event_id] * 3
    assert all(received.verified() for received in receiver.received)
    assert len({received.body for received in receiver.received}) == 1
    assert [(a.number, a.status) for a in logged.attempts] == [(1, 500), (2, 0), (3, 204)]
    assert [a.error for a in logged.attempts] == [
        "answered 500: not taken",
        f"no answer within {PATIENCE_SECONDS} s",
        "",
    ]


async def test_the_next_attempt_is_due_by_the_configured_backoff(
    start: Start, receiver: Receiver, broker_bus: Bus
) -> None:
    receiver.answer(500)
    async with start(**ON, webhook_backoff="3600") as client:
        await publish_job_finished(broker_bus, receiver.url)
        logged = await delivery(client, PENDING, attempts=1)

    assert timedelta(hours=1) <= wait(logged) <= timedelta(hours=1.21)


async def test_retry_after_of_a_receiver_is_respected(
    start: Start, receiver: Receiver, broker_bus: Bus
) -> None:
    receiver.answer(Reply(429, {"Retry-After": "7200"}))
    async with start(**QUICK) as client:
        await publish_job_finished(broker_bus, receiver.url)
        logged = await delivery(client, PENDING, attempts=1)

    assert timedelta(hours=2) <= wait(logged) <= timedelta(hours=2.01)


def wait(logged: pb.WebhookDelivery) -> timedelta:
    """From the end of the last attempt to the next."""
    last = logged.attempts[-1]
    ended = last.start_time.ToDatetime(UTC) + last.duration.ToTimedelta()
    return logged.next_attempt_time.ToDatetime(UTC) - ended


async def test_status_410_ends_the_attempts(
    start: Start, receiver: Receiver, broker_bus: Bus
) -> None:
    receiver.answer(410)
    async with start(**QUICK) as client:
        event = await publish_job_finished(broker_bus, receiver.url)
        logged = await delivery(client, DEAD)
        await until(lambda: queue_is_empty(broker_bus))
        (letter,) = await letters(client, reason="WEBHOOK_REFUSED")

    assert (letter.attempts, letter.letter_id) == (1, event.event_id)
    assert [attempt.status for attempt in logged.attempts] == [410]


async def test_the_last_attempt_leaves_a_dead_letter_that_can_be_replayed(
    start: Start, receiver: Receiver, broker_bus: Bus
) -> None:
    receiver.answer(500)
    async with start(**QUICK) as client:
        event = await publish_job_finished(broker_bus, receiver.url)
        logged = await delivery(client, DEAD, attempts=3)
        await until(lambda: queue_is_empty(broker_bus))
        (letter,) = await letters(client)

        assert letter.kind == job_pb2.LETTER_KIND_WEBHOOK
        assert (letter.failure.reason, letter.attempts) == ("WEBHOOK_UNDELIVERED", 3)
        assert (letter.letter_id, letter.job_id) == (event.event_id, event.job_id)
        assert letter.correlation_id == "thread-7"
        assert letter.first_attempt_time == logged.attempts[0].start_time
        item = webhook_pb2.WebhookItem.FromString(letter.content)
        assert (item.event_id, item.url) == (event.event_id, receiver.url)
        assert not logged.HasField("next_attempt_time")

        # Fresh attempts, and another letter if they are in vain too.
        await replay(client, letter.letter_id)
        logged = await delivery(client, DEAD, attempts=6)
        await until(lambda: queue_is_empty(broker_bus))
        (letter,) = await letters(client)
        assert letter.attempts == 6

        receiver.answer(200)
        await replay(client, letter.letter_id)
        logged = await delivery(client, DELIVERED, attempts=7)
        assert await letters(client) == []

    assert [attempt.number for attempt in logged.attempts] == [1, 2, 3, 4, 5, 6, 7]
    assert {received.id for received in receiver.received} == {event.event_id}


async def test_a_replayed_job_sends_another_webhook_when_it_ends(
    start: Start, script: Script, receiver: Receiver
) -> None:
    async with start(**ON) as client:
        script.failures = [private()]
        dead = await client.finished((await client.create(webhook_url=receiver.url)).job_id)
        await receiver.wait_for(1)
        await replay(client, dead.job_id)
        first, second = await receiver.wait_for(2)

    assert first.id != second.id
    assert [_state(received.verified()) for received in (first, second)] == [
        "JOB_STATE_FAILED",
        "JOB_STATE_SUCCEEDED",
    ]


def _state(content: dict[str, object]) -> object:
    data = content["data"]
    assert isinstance(data, dict)
    return data["state"]


async def test_a_slow_receiver_does_not_delay_the_others(
    start: Start, receiver: Receiver, broker_bus: Bus
) -> None:
    receiver.answer(HANG)
    async with (
        start(**ON, webhook_at_once=8) as client,
        receiving() as quick,
    ):
        for _ in range(5):
            await publish_job_finished(broker_bus, receiver.url)
        await receiver.wait_for(2)
        event = await publish_job_finished(broker_bus, quick.url)
        await quick.wait_for(1)

        assert await delivery(client, DELIVERED, job_id=event.job_id)
        assert (len(receiver.received), receiver.under_way) == (2, 2)
        receiver.release()
        await receiver.wait_for(5)

    assert receiver.most_at_once == 2
    assert len({received.id for received in receiver.received}) == 5
