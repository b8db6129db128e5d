"""What happened is told to everyone as JSON: all of it, in order, and by the broker only once."""

import asyncio
import json
from typing import Any

import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from mesh.broker import Broker
from mesh.bus import Bus
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from orchestrator.heralds.herald import Herald
from orchestrator.heralds.translating import KINDS
from tests.orchestrator.heralds.telling import JOB, executed, happening, store, telling, told
from tests.orchestrator.letters import dies_once
from tests.orchestrator.polling import until
from ytcaption.v1 import event_pb2

OTHER = "01997b3e-1111-7c44-9d5f-0d3a5a3f2c11"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.heralds.herald.ACK_WAIT_SECONDS", 1.0)
    monkeypatch.setattr("orchestrator.heralds.herald.AGAIN_SECONDS", 0.05)


async def heard(bus: Bus, count: int) -> list[dict[str, Any]]:
    async def enough() -> bool:
        return len(await told(bus)) >= count

    await until(enough)
    return await told(bus)


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [one["payload"]["segmentos"] for one in found]


async def test_listeners_hear_it_live_and_readers_find_it_later(
    broker_bus: Bus, broker: Broker
) -> None:
    plain = Nats()
    await plain.connect(broker.url)
    try:
        listening = await plain.subscribe("ytc.out.>")
        await plain.flush()
        async with telling(broker_bus):
            await store(broker_bus, executed(7))
            live = await listening.next_msg(timeout=10)
    finally:
        await plain.close()

    assert live.subject == "ytc.out.resultado_execucao"
    assert [json.loads(live.data)] == await told(broker_bus)


async def test_what_happened_while_every_herald_was_away_is_told_in_order(
    broker_bus: Bus,
) -> None:
    await Herald(broker_bus).prepare()
    for number in range(300):
        await store(broker_bus, executed(number, JOB if number % 2 else OTHER))
        await store(broker_bus, happening("media_found", event_pb2.MediaFound()))
    async with telling(broker_bus), telling(broker_bus):
        found = await heard(broker_bus, 300)

    assert numbers(found) == list(range(300))


async def test_what_happened_before_the_first_herald_came_is_not_told(broker_bus: Bus) -> None:
    await store(broker_bus, executed(1))
    async with telling(broker_bus):
        await store(broker_bus, executed(2))
        found = await heard(broker_bus, 1)

    assert numbers(found) == [2]


async def test_a_herald_killed_before_its_acknowledgement_tells_nothing_twice(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    herald = Herald(broker_bus)
    await herald.prepare()
    await store(broker_bus, executed(1))
    dies_once(monkeypatch, Msg, "ack")
    with pytest.raises(RuntimeError):
        await asyncio.wait_for(herald.keep_telling(), 10)

    await store(broker_bus, executed(2))
    async with telling(broker_bus):
        found = await heard(broker_bus, 2)

    assert numbers(found) == [1, 2]


async def test_an_outbox_that_is_away_delays_and_keeps_the_order(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = Bus.publish, 0

    async def away(self: Bus, subject: str, *rest: Any) -> int:
        nonlocal times
        if ".out." in subject and (times := times + 1) in (1, 2, 4):
            raise UnavailableError("away", reason=Reason.STORAGE_UNAVAILABLE)
        return await real(self, subject, *rest)

    monkeypatch.setattr(Bus, "publish", away)
    async with telling(broker_bus):
        for number in range(3):
            await store(broker_bus, executed(number))
        found = await heard(broker_bus, 3)

    assert (numbers(found), times) == ([0, 1, 2], 6)


async def test_what_cannot_be_told_holds_nothing_up(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = broker_bus.names
    # What the broker carries holds only 2,000 bytes beside the headers.
    room = broker_bus.client.max_payload - 2000
    monkeypatch.setattr("orchestrator.heralds.herald.HEADERS_BYTES", room)
    empty = happening("execution_result", event_pb2.ExecutionResult())
    huge = executed()
    huge.execution_result.model = "\n" * 1500
    async with telling(broker_bus):
        await broker_bus.publish(names.event(JOB, KINDS[0]), b"\xff")
        await store(broker_bus, empty)
        await store(broker_bus, huge)
        await store(broker_bus, executed(5))
        found = await heard(broker_bus, 1)

    assert numbers(found) == [5]


async def test_events_purged_while_they_are_told_hold_nothing_up(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    herald = Herald(broker_bus)
    await herald.prepare()
    for number in range(3):
        await store(broker_bus, executed(number))
    dies_once(monkeypatch, Bus, "publish", at=broker_bus.names.outgoing("resultado_execucao"))
    with pytest.raises(RuntimeError):  # it holds the first one, unacknowledged
        await asyncio.wait_for(herald.keep_telling(), 10)
    await broker_bus.jetstream.purge_stream(
        broker_bus.names.events_stream, subject=broker_bus.names.event(JOB, "*")
    )
    await store(broker_bus, executed(9, OTHER))

    async with telling(broker_bus):
        found = await heard(broker_bus, 1)

    assert numbers(found) == [9]


async def test_the_outbox_drops_repetitions_for_as_long_as_we_say(broker_bus: Bus) -> None:
    config = (await broker_bus.jetstream.stream_info(broker_bus.names.outbox_stream)).config

    assert config.duplicate_window == 15 * 60
