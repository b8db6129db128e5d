"""A broker that is killed under inbox and herald costs nothing that it has acknowledged."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from mesh.broker import Broker, running_broker
from mesh.bus import Bus, outlast
from tests.orchestrator.heralds.starting import Recorder, as_json, event, receiving
from tests.orchestrator.heralds.telling import executed, store, telling, told
from tests.orchestrator.polling import until

EVENTS = 20


async def test_a_broker_killed_twice_loses_and_doubles_nothing(
    broker: Broker, broker_bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.heralds.inbox.ACK_WAIT_SECONDS", 1.0)
    monkeypatch.setattr("orchestrator.heralds.herald.ACK_WAIT_SECONDS", 1.0)
    port, recorder, bus = int(broker.url.rpartition(":")[2]), Recorder(), broker_bus

    async def send(begin: int) -> None:
        for number in range(begin, begin + EVENTS):
            asked = as_json(event(evento_id=str(number)))
            await outlast(partial(bus.publish, bus.names.incoming("iniciar_coleta"), asked))
            await outlast(partial(store, bus, executed(number)))

    async with telling(bus), receiving(bus, recorder):
        await send(0)
        os.kill(broker.pid, signal.SIGKILL)
        async with running_broker(tmp_path / "nats", port) as second:
            await send(EVENTS)
            os.kill(second.pid, signal.SIGKILL)
            async with running_broker(tmp_path / "nats", port):
                await send(2 * EVENTS)

                async def all_of_it() -> bool:
                    heard = await outlast(lambda: told(bus))
                    return len(recorder.accepted) == len(heard) == 3 * EVENTS

                await until(all_of_it)
                heard = await told(bus)

    assert sorted(map(int, recorder.accepted)) == list(range(3 * EVENTS))
    # A publish that was repeated may have been stored twice; each event_id is told once.
    assert [one["payload"]["segmentos"] for one in heard] == list(range(3 * EVENTS))
