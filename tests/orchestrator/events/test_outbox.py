"""The outbox publishes every event as JSON, in order, and the broker stores each once."""

import json
from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, DeliverPolicy

from mesh.bus import Bus
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from orchestrator.events.outbox import DURABLE
from orchestrator.events.rendering import KINDS
from tests.orchestrator.events.outbox import (
    JOB,
    executed,
    outbox_on,
    published,
    publishing,
    store,
    stored_event,
)
from tests.support.broker import Broker
from tests.support.dead_letters import dies_once
from tests.support.polling import until
from ytcaption.v1 import collection_pb2, event_pb2

OTHER = "01997b3e-1111-7c44-9d5f-0d3a5a3f2c11"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.events.outbox.AGAIN_SECONDS", 0.05)
    # An item on its way to an outbox that stops waits for this; it must end within the test.
    monkeypatch.setattr("orchestrator.events.outbox.ACK_WAIT_SECONDS", 5.0)


async def published_when(bus: Bus, count: int) -> list[dict[str, Any]]:
    async def enough() -> bool:
        return len(await published(bus)) >= count

    await until(enough)
    return await published(bus)


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [one["payload"]["segmentos"] for one in found]


async def test_an_event_reaches_live_subscribers_and_stays_in_the_outbox_stream(
    broker_bus: Bus, broker: Broker
) -> None:
    plain = await broker.connect("listener")
    try:
        listening = await plain.subscribe("ytc.out.>")
        await plain.flush()
        async with publishing(broker_bus):
            await store(broker_bus, executed(7))
            live = await listening.next_msg(timeout=60)
    finally:
        await plain.close()

    assert live.subject == "ytc.out.resultado_execucao"
    assert [json.loads(live.data)] == await published(broker_bus)


async def test_events_stored_while_every_outbox_was_away_are_published_in_order(
    broker_bus: Bus,
) -> None:
    await outbox_on(broker_bus).create()
    for number in range(300):
        await store(broker_bus, executed(number, JOB if number % 2 else OTHER))
        await store(broker_bus, stored_event("media_found", event_pb2.MediaFound()))
    async with publishing(broker_bus), publishing(broker_bus):
        found = await published_when(broker_bus, 300)

    assert numbers(found) == list(range(300))


async def test_events_before_the_first_outbox_are_not_published(broker_bus: Bus) -> None:
    await store(broker_bus, executed(1))
    async with publishing(broker_bus):
        await store(broker_bus, executed(2))
        found = await published_when(broker_bus, 1)

    assert numbers(found) == [2]


async def test_an_outbox_that_fails_before_its_acknowledgement_publishes_nothing_twice(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = dies_once(monkeypatch, Msg, "ack_sync")
    async with publishing(broker_bus):
        await store(broker_bus, executed(1))
        await until(lambda: bool(deaths))

    await store(broker_bus, executed(2))
    async with publishing(broker_bus):
        found = await published_when(broker_bus, 2)

    assert numbers(found) == [1, 2]


async def test_an_outbox_that_is_away_delays_and_keeps_the_order(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = Bus.publish, 0

    async def away(self: Bus, subject: str, *rest: Any, **named: Any) -> int:
        nonlocal times
        if ".out." in subject and (times := times + 1) in (1, 2, 4):
            raise UnavailableError("away", reason=Reason.STORAGE_UNAVAILABLE)
        return await real(self, subject, *rest, **named)

    monkeypatch.setattr(Bus, "publish", away)
    async with publishing(broker_bus):
        for number in range(3):
            await store(broker_bus, executed(number))
        found = await published_when(broker_bus, 3)

    assert (numbers(found), times) == ([0, 1, 2], 6)


async def test_an_event_without_json_form_does_not_block_the_next(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = broker_bus.names
    # What the broker carries holds only 2,000 bytes beside the headers.
    capacity = broker_bus.client.max_payload - 2000
    monkeypatch.setattr("orchestrator.events.outbox.HEADERS_BYTES", capacity)
    empty = stored_event("execution_result", event_pb2.ExecutionResult())
    huge = executed()
    huge.execution_result.model = "\n" * 1500
    async with publishing(broker_bus):
        await broker_bus.publish(names.event(JOB, KINDS[0]), b"\xff")
        await store(broker_bus, empty)
        await store(broker_bus, huge)
        await store(broker_bus, executed(5))
        found = await published_when(broker_bus, 1)

    assert numbers(found) == [5]


async def test_events_purged_while_they_are_published_do_not_block_the_next(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    outgoing = broker_bus.names.outgoing("resultado_execucao")
    with monkeypatch.context() as failing:
        deaths = dies_once(failing, Bus, "publish", at=outgoing, times=10_000)
        async with publishing(broker_bus):
            for number in range(3):
                await store(broker_bus, executed(number))
            await until(lambda: bool(deaths))  # the first one is unacknowledged
    await broker_bus.jetstream.purge_stream(
        broker_bus.names.events_stream, subject=broker_bus.names.event(JOB, "*")
    )
    await store(broker_bus, executed(9, OTHER))

    async with publishing(broker_bus):
        found = await published_when(broker_bus, 1)

    assert numbers(found) == [9]


async def test_the_outbox_stream_deduplicates_for_the_configured_time(broker_bus: Bus) -> None:
    config = (await broker_bus.jetstream.stream_info(broker_bus.names.outbox_stream)).config

    assert config.duplicate_window == 15 * 60


async def test_the_outbox_of_an_earlier_version_goes_on_with_the_kinds_it_did_not_know(
    broker_bus: Bus,
) -> None:
    names = broker_bus.names
    await broker_bus.jetstream.add_consumer(
        names.events_stream,
        durable_name=DURABLE,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=10,
        max_ack_pending=1,
        deliver_policy=DeliverPolicy.NEW,
        filter_subjects=[names.event("*", kind) for kind in KINDS],
    )
    await store(broker_bus, executed(1))
    async with publishing(broker_bus):
        collection = collection_pb2.Collection(
            collection_id=OTHER, state=collection_pb2.COLLECTION_STATE_COMPLETE
        )
        changed = event_pb2.CollectionChanged(collection=collection)
        gathered = event_pb2.EVENT_TYPE_COLLECTION_GATHERED
        await store(
            broker_bus,
            stored_event("collection_changed", changed, job_id="", attempt=0, type=gathered),
        )
        found = await published_when(broker_bus, 2)

    assert [one["tipo_evento"] for one in found] == ["resultado_execucao", "resultado_agregado"]
