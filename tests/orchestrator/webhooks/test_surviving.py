"""Webhooks outlive their sender, are sent by one of many, and go when their job goes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from mesh.bus import Bus
from mesh.errors import LimitExceededError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.jobs.dead_letters import DeadLetters
from orchestrator.webhooks.deliveries import Deliveries
from orchestrator.webhooks.queue import put_item
from orchestrator.webhooks.relay import Relay
from orchestrator.webhooks.sender import DURABLE
from tests.orchestrator.conftest import ANSWER_SECONDS, STORAGE, Start
from tests.orchestrator.webhooks.deliveries import (
    DEAD,
    DELIVERED,
    ON,
    PENDING,
    QUICK,
    deliveries,
    delivery,
    publish_job_finished,
    queue_is_empty,
)
from tests.orchestrator.webhooks.receiver import HANG, SECRET, Receiver
from tests.support.ack_wait import give_back_for_the_dead
from tests.support.broker import Broker
from tests.support.dead_letters import dies_once, letters, replay
from tests.support.polling import still, until
from ytcaption.v1 import webhook_pb2


@asynccontextmanager
async def own_process(broker: Broker) -> AsyncIterator[asyncio.subprocess.Process]:
    """An orchestrator that can be killed."""
    settings = QUICK | {
        "nats_url": broker.url,
        "nats_credentials": broker.credentials,
        "nats_seconds": ANSWER_SECONDS,
        "storage_bytes": STORAGE,
        "listen": "127.0.0.1:0",
        "metrics_listen": "",
        "webhook_secret": SECRET,
    }
    named = {f"ORCHESTRATOR_{name.upper()}": str(value) for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "orchestrator"),
        env=os.environ | named,
        stderr=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_attempts_are_counted_across_a_kill_and_one_cut_off_is_repeated(
    start: Start, broker: Broker, broker_bus: Bus, receiver: Receiver
) -> None:
    receiver.answer(500, HANG, 200)
    await Relay(broker_bus, Deliveries(broker_bus)).create()
    async with own_process(broker) as process:
        event = await publish_job_finished(broker_bus, receiver.url)
        await receiver.wait_for(2)
        process.kill()
    await give_back_for_the_dead(broker_bus, broker_bus.names.webhooks_stream, DURABLE)
    async with start(**QUICK) as client:
        logged = await delivery(client, DELIVERED)

    assert [(attempt.number, attempt.status) for attempt in logged.attempts] == [(1, 500), (2, 200)]
    assert [received.id for received in receiver.received] == [event.event_id] * 3


async def test_two_replicas_send_each_webhook_once(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    async with start(**ON) as client, start(**ON):
        events = [await publish_job_finished(broker_bus, receiver.url) for _ in range(20)]
        await receiver.wait_for(20)
        await until(lambda: queue_is_empty(broker_bus))
        logged = await deliveries(client)

    assert sorted(r.id for r in receiver.received) == sorted(e.event_id for e in events)
    assert all(found.state == DELIVERED and len(found.attempts) == 1 for found in logged)


async def test_a_final_event_relayed_twice_is_sent_once(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    event = await publish_job_finished(broker_bus, receiver.url)
    subject = broker_bus.names.webhook(event.event_id)
    item = webhook_pb2.WebhookItem(
        event_id=event.event_id, type="job.finished", url=receiver.url, job_id=event.job_id
    )
    async with start(**ON) as client:
        for _ in range(2):  # without a message id: the queue may have forgotten it
            await broker_bus.publish(subject, item.SerializeToString())
            await until(lambda: queue_is_empty(broker_bus))
        logged = await delivery(client, DELIVERED)

    assert (len(receiver.received), len(logged.attempts)) == (1, 1)


async def test_an_item_delivered_before_it_is_due_is_given_back_unsent(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    js, names = broker_bus.jetstream, broker_bus.names
    receiver.answer(500, 200)
    async with start(**ON, webhook_backoff="3600") as client:
        early = await publish_job_finished(broker_bus, receiver.url)
        await delivery(client, PENDING, attempts=1)
        subject = names.webhook(early.event_id)
        item = (await js.get_last_msg(names.webhooks_stream, subject)).data or b""
        await js.purge_stream(names.webhooks_stream, subject=subject)
        await broker_bus.publish(subject, item)  # as after a broker that forgot the delay
        other = await publish_job_finished(broker_bus, receiver.url)
        await delivery(client, DELIVERED, job_id=other.job_id)

        async def given_back() -> bool:
            info = await js.consumer_info(names.webhooks_stream, DURABLE)
            return bool(info.num_ack_pending == 1 and not info.num_pending)

        await until(given_back)
        logged = await delivery(client, PENDING, job_id=early.job_id)

    assert len(logged.attempts) == 1
    assert [received.id for received in receiver.received] == [early.event_id, other.event_id]


async def test_a_final_event_waits_while_the_webhook_queue_is_full(
    start: Start, broker_bus: Bus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    async def full_once(bus: Bus, item: webhook_pb2.WebhookItem) -> bool:
        if not refused:
            refused.append(item.event_id)
            raise LimitExceededError("full", reason=Reason.STORAGE_FULL)
        return await put_item(bus, item)

    monkeypatch.setattr("orchestrator.webhooks.relay.put_item", full_once)
    monkeypatch.setattr("orchestrator.webhooks.relay.FULL_SECONDS", 0.05)
    async with start(**ON) as client:
        event = await publish_job_finished(broker_bus, receiver.url)
        await delivery(client, DELIVERED)

    assert refused == [received.id for received in receiver.received] == [event.event_id]


async def test_a_webhook_waits_while_no_secret_is_configured(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    async with start() as client:
        await publish_job_finished(broker_bus, receiver.url)
        logged = await delivery(client, PENDING)
        assert await still(lambda: len(receiver.received)) == 0
        assert len(logged.attempts) == 0
    async with start(**ON) as client:
        logged = await delivery(client, DELIVERED)

    (received,) = receiver.received
    assert received.verified()
    assert len(logged.attempts) == 1


async def test_a_sender_that_dies_before_the_dead_letter_leaves_it_to_the_next(
    start: Start, broker_bus: Bus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.queue.consumers.FAULT_SECONDS", 0.1)
    deaths = dies_once(monkeypatch, DeadLetters, "add")
    receiver.answer(410)
    async with start(**QUICK) as client:
        await publish_job_finished(broker_bus, receiver.url)
        await delivery(client, DEAD)
        await until(lambda: queue_is_empty(broker_bus))
        (letter,) = await letters(client)

    assert (deaths, len(receiver.received)) == (["add"], 1)
    assert (letter.failure.reason, letter.attempts) == ("WEBHOOK_REFUSED", 1)


async def test_the_next_attempt_removes_a_dead_letter_that_outlived_its_replay(
    start: Start, broker_bus: Bus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answer(410)
    async with start(**QUICK) as client:
        event = await publish_job_finished(broker_bus, receiver.url)
        await delivery(client, DEAD)
        await until(lambda: queue_is_empty(broker_bus))
    async with start() as client:  # which sends nothing
        deaths = dies_once(monkeypatch, DeadLetters, "remove")
        with pytest.raises(grpc.aio.AioRpcError):
            await replay(client, event.event_id)
        assert (deaths, len(await letters(client))) == (["remove"], 1)
    receiver.answer(200)
    async with start(**QUICK) as client:
        await delivery(client, DELIVERED)

        assert await letters(client) == []
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await replay(client, event.event_id)
    assert reason_of(caught.value) == "DEAD_LETTER_NOT_FOUND"
