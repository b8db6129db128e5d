"""That a record is absent is said after a proof of the quorum, which all that wait share."""

import asyncio
from typing import Any

import pytest

from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.errors import LimitExceededError, NotFoundError
from mesh.stores import Limits
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.store import JobStore
from tests.orchestrator.conftest import ANSWER_SECONDS, connected
from tests.support.broker import Broker

ASKED = 100


@pytest.fixture(autouse=True)
def patient_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may hold up the broker."""
    monkeypatch.setattr("mesh.bus.PROOF_SECONDS", ANSWER_SECONDS)


async def _deny(bus: Bus) -> None:
    with pytest.raises(NotFoundError):
        await JobStore(bus).get(new_id())


async def _written(bus: Bus) -> int:
    return (await bus.state(f"KV_{bus.names.jobs_bucket}")).last_seq


async def test_one_replica_denies_without_a_write(broker_bus: Bus) -> None:
    await _deny(broker_bus)

    assert await _written(broker_bus) == 0


async def test_denials_at_one_moment_share_one_proof(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_bus, "_replicated", True)
    newest, publish = broker_bus.newest, broker_bus.jetstream.publish
    reads, all_read = 0, asyncio.Event()

    async def counted(*given: Any) -> Any:
        nonlocal reads
        found = await newest(*given)
        reads += 1
        if reads == ASKED:
            all_read.set()
        return found

    async def held(*given: Any, **named: Any) -> Any:
        await all_read.wait()
        return await publish(*given, **named)

    monkeypatch.setattr(broker_bus, "newest", counted)
    monkeypatch.setattr(broker_bus.jetstream, "publish", held)
    await asyncio.gather(*(_deny(broker_bus) for _ in range(ASKED)))

    # Those that read while the first proof was under way share the second.
    assert await _written(broker_bus) <= 2


async def test_each_later_denial_has_a_proof_of_its_own(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_bus, "_replicated", True)

    await _deny(broker_bus)
    await _deny(broker_bus)

    assert await _written(broker_bus) == 2


async def test_a_proof_is_no_record(broker_bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_bus, "_replicated", True)
    await _deny(broker_bus)

    assert [key async for key, _ in JobStore(broker_bus).stored()] == []
    assert (await JobIndex(broker_bus).page(10, "", ())).items == []


async def _fill(bus: Bus, size: int) -> None:
    while True:
        await bus.put_key(f"filler.{new_id()}", bytes(size), 0)


async def test_a_full_store_denies_too(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(broker, limits=Limits(storage_bytes=1024**2)) as bus:
        monkeypatch.setattr(bus, "_replicated", True)
        for size in (10_000, 10):
            with pytest.raises(LimitExceededError):
                await _fill(bus, size)

        await _deny(bus)
