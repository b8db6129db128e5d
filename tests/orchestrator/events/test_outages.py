"""A broker that is killed while inbox and outbox run loses nothing it acknowledged."""

from functools import partial
from pathlib import Path

import pytest

from mesh.bus import Bus, outlast
from tests.orchestrator.events.outbox import executed, published, publishing, store
from tests.orchestrator.events.starting import Recorder, as_json, event, receiving
from tests.support.broker import Broker, running_broker
from tests.support.polling import until
from tests.support.processes import kill

EVENTS = 20


async def test_a_broker_killed_twice_loses_and_duplicates_nothing(
    broker: Broker, outage_bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.events.inbox.ACK_WAIT_SECONDS", 1.0)
    monkeypatch.setattr("orchestrator.events.outbox.ACK_WAIT_SECONDS", 1.0)
    port, recorder, bus = int(broker.url.rpartition(":")[2]), Recorder(), outage_bus

    async def send(begin: int) -> None:
        for number in range(begin, begin + EVENTS):
            asked = as_json(event(evento_id=str(number)))
            await outlast(partial(bus.publish, bus.names.incoming("iniciar_coleta"), asked))
            await outlast(partial(store, bus, executed(number)))

    async with publishing(bus), receiving(bus, recorder):
        await send(0)
        await kill(broker.pid)
        async with running_broker(tmp_path / "nats", port) as second:
            await send(EVENTS)
            await kill(second.pid)
            async with running_broker(tmp_path / "nats", port):
                await send(2 * EVENTS)

                async def all_of_it() -> bool:
                    events = await outlast(lambda: published(bus))
                    return len(recorder.accepted) == len(events) == 3 * EVENTS

                await until(all_of_it, 120)
                events = await published(bus)

    assert sorted(map(int, recorder.accepted)) == list(range(3 * EVENTS))
    # A publish that was repeated may have been stored twice; each event_id is published once.
    assert [one["payload"]["segmentos"] for one in events] == list(range(3 * EVENTS))
