"""What a dashboard sees of queues, consumers, jobs and collections."""

from collections.abc import Callable
from math import isnan
from typing import Any

import pytest
from prometheus_client import REGISTRY

from mesh.bus import Bus
from mesh.errors import SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from orchestrator.maintenance.gauges import Gauges
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.collections import addresses
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import collection_service_pb2 as collection_pb


def value(name: str, **labels: str) -> float:
    found = REGISTRY.get_sample_value(f"ytcaption_{name}", labels)
    return 0 if found is None else found


@pytest.fixture(autouse=True)
def measured_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.maintenance.gauges.EVERY_SECONDS", 0.05)


def equal(expected: float, name: str, **labels: str) -> Callable[[], bool]:
    return lambda: value(name, **labels) == expected


async def test_gauges_follow_jobs_from_the_queue_to_their_ends(
    client: Client, script: Script
) -> None:
    script.pause_before_segment = 2
    running = await client.create()
    await script.until_paused()
    await until(equal(1, "jobs", state="running"))
    await until(equal(1, "queue_depth"))

    script.go_on.set()
    await client.finished(running.job_id)
    script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]
    await client.finished((await client.create()).job_id)

    await until(equal(1, "jobs", state="succeeded"))
    await until(equal(1, "jobs", state="failed"))
    await until(equal(1, "dead_letters"))
    await until(equal(0, "jobs", state="running"))
    await until(equal(0, "queue_depth"))


async def test_the_lag_of_a_consumer_is_what_it_has_not_finished(
    start: Start, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(self: Any, message: Any) -> None:
        await message.in_progress()
        raise UnavailableError("away", reason=Reason.STORAGE_UNAVAILABLE)

    monkeypatch.setattr("orchestrator.events.inbox.Inbox._handle", hangs)
    async with start():
        for _ in range(3):
            await broker_bus.publish(broker_bus.names.incoming("iniciar_coleta"), b"{}")

        await until(equal(3, "consumer_lag", consumer="inbox"))
        for other in ("herald", "webhooks", "conductors"):
            await until(equal(0, "consumer_lag", consumer=other))


async def test_a_figure_that_cannot_be_measured_is_not_a_number() -> None:
    async def away() -> Any:
        raise UnavailableError("away", reason=Reason.STORAGE_UNAVAILABLE)

    await Gauges(away, ()).measure()

    assert isnan(value("queue_depth"))
    assert isnan(value("jobs", state="running"))


async def test_cycle_time_queue_wait_retries_and_collections_are_counted(
    client: Client, script: Script
) -> None:
    def figures() -> dict[str, float]:
        return {
            "cycles": value("job_seconds_count", state="succeeded"),
            "waits": value("queue_seconds_count"),
            "retries": value("retries_total", kind="job", reason="NETWORK_ERROR"),
            "accepted": value("collections_accepted_total"),
            "complete": value("collections_gathered_total", state="complete"),
        }

    before = figures()
    script.failures = [UnavailableError("reset", reason=Reason.NETWORK_ERROR)]
    job = await client.finished((await client.create()).job_id)
    request = collection_pb.CreateCollectionRequest(addresses=addresses(2), force=True)
    made = (await client.collections.CreateCollection(request)).collection

    async def gathered() -> bool:
        asked = collection_pb.GetCollectionRequest(collection_id=made.collection_id)
        return (await client.collections.GetCollection(asked)).collection.settled

    await until(gathered)
    after = figures()

    assert job.attempt == 2
    assert {name: after[name] - before[name] for name in after} == {
        "cycles": 3,
        "waits": 3,
        "retries": 1,
        "accepted": 1,
        "complete": 1,
    }
