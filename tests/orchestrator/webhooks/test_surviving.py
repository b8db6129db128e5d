"""Webhooks outlive their sender, are sent by one of many, and go when their job goes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from mesh.broker import Broker
from mesh.bus import Bus
from mesh.errors import LimitExceededError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.deadletters import DeadLetters
from orchestrator.webhooks.queue import put_item
from orchestrator.webhooks.relay import Relay
from tests.orchestrator.conftest import STORAGE, Start
from tests.orchestrator.letters import dies_once, letters, replay
from tests.orchestrator.polling import until
from tests.orchestrator.webhooks.deliveries import (
    DEAD,
    DELIVERED,
    ON,
    PENDING,
    QUICK,
    deliveries,
    delivery,
    queue_is_empty,
    tell_end,
)
from tests.orchestrator.webhooks.receiver import HANG, SECRET, Receiver
from tests.polling import still
from ytcaption.v1 import webhook_pb2

IMPATIENT: dict[str, Any] = QUICK | {"webhook_seconds": 1, "ack_wait_seconds": 1}


@asynccontextmanager
async def own_process(broker: Broker) -> AsyncIterator[asyncio.subprocess.Process]:
    """An orchestrator that can be killed."""
    settings = IMPATIENT | {
        "nats_url": broker.url,
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
    await Relay(broker_bus).prepare()
    async with own_process(broker) as process:
        event = await tell_end(broker_bus, receiver.url)
        await receiver.wait_for(2)
        process.kill()
    async with start(**IMPATIENT) as client:
        logged = await delivery(client, DELIVERED)

    assert [(attempt.number, attempt.status) for attempt in logged.attempts] == [(1, 500), (2, 200)]
    assert [received.id for received in receiver.received] == [event.event_id] * 3


async def test_two_replicas_send_each_webhook_once(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    async with start(**ON) as client, start(**ON):
        events = [await tell_end(broker_bus, receiver.url) for _ in range(20)]
        await receiver.wait_for(20)
        await until(lambda: queue_is_empty(broker_bus))
        logged = await deliveries(client)

    assert sorted(r.id for r in receiver.received) == sorted(e.event_id for e in events)
    assert all(found.state == DELIVERED and len(found.attempts) == 1 for found in logged)


async def test_an_end_that_is_relayed_twice_is_sent_once(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    event = await tell_end(broker_bus, receiver.url)
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


async def test_an_item_that_comes_before_its_time_is_given_back_unsent(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    js, names = broker_bus.jetstream, broker_bus.names
    receiver.answer(500, 200)
    async with start(**ON, webhook_backoff="3600") as client:
        early = await tell_end(broker_bus, receiver.url)
        await delivery(client, PENDING, attempts=1)
        subject = names.webhook(early.event_id)
        item = (await js.get_last_msg(names.webhooks_stream, subject)).data or b""
        await js.purge_stream(names.webhooks_stream, subject=subject)
        await broker_bus.publish(subject, item)  # as after a broker that forgot the delay
        other = await tell_end(broker_bus, receiver.url)
        await delivery(client, DELIVERED, job_id=other.job_id)

        async def given_back() -> bool:
            info = await js.consumer_info(names.webhooks_stream, "sender")
            return bool(info.num_ack_pending == 1 and not info.num_pending)

        await until(given_back)
        logged = await delivery(client, PENDING, job_id=early.job_id)

    assert len(logged.attempts) == 1
    assert [received.id for received in receiver.received] == [early.event_id, other.event_id]


async def test_an_end_for_which_the_queue_has_no_room_waits_for_some(
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
        event = await tell_end(broker_bus, receiver.url)
        await delivery(client, DELIVERED)

    assert refused == [received.id for received in receiver.received] == [event.event_id]


async def test_a_webhook_waits_while_the_operator_has_taken_the_secret_away(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    async with start() as client:
        await tell_end(broker_bus, receiver.url)
        logged = await delivery(client, PENDING)
        assert await still(lambda: len(receiver.received)) == 0
        assert len(logged.attempts) == 0
    async with start(**ON) as client:
        logged = await delivery(client, DELIVERED)

    (received,) = receiver.received
    assert received.verified()
    assert len(logged.attempts) == 1


async def test_a_sender_that_dies_before_the_letter_leaves_it_to_the_next(
    start: Start, broker_bus: Bus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.webhooks.pulling.FAULT_SECONDS", 0.1)
    deaths = dies_once(monkeypatch, DeadLetters, "keep")
    receiver.answer(410)
    async with start(**QUICK) as client:
        await tell_end(broker_bus, receiver.url)
        await delivery(client, DEAD)
        await until(lambda: queue_is_empty(broker_bus))
        (letter,) = await letters(client)

    assert (deaths, len(receiver.received)) == (["keep"], 1)
    assert (letter.failure.reason, letter.attempts) == ("WEBHOOK_REFUSED", 1)


async def test_a_letter_that_outlives_its_replay_goes_with_the_next_attempt(
    start: Start, broker_bus: Bus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answer(410)
    async with start(**QUICK) as client:
        event = await tell_end(broker_bus, receiver.url)
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
