"""What goes when a store gets too full, in which order, and what must never go."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.stores import Limits
from orchestrator.collections.records import CollectionStore
from orchestrator.jobs.artifacts import TRANSCRIPT, UPLOAD, Artifacts
from orchestrator.jobs.store import JobStore
from orchestrator.maintenance import eviction
from orchestrator.maintenance.inventory import Inventory
from tests.orchestrator.conftest import Start, connected
from tests.support.broker import Broker
from tests.support.collections import (
    addresses,
    collect,
    collection_gone,
    counts,
    read,
    settled,
    states,
    until_states,
)
from tests.support.polling import until
from tests.support.scripted import SECOND, Script
from tests.support.traces import gone, traces
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2

pytestmark = pytest.mark.usefixtures("sweeps_at_once")

SMALL = 16 * 1024**2
"""Of this the event logs may take a sixth, about 2.7 MB."""
LONG = 400_000


@pytest.fixture
async def small(broker: Broker) -> AsyncIterator[Bus]:
    """Stores smaller than an orchestrator would make them."""
    async with connected(broker, limits=Limits(storage_bytes=SMALL)) as bus:
        yield bus


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each eviction logs at its end; the stores are measured after each removal."""
    logged: list[dict[str, Any]] = []
    monkeypatch.setattr(eviction, "BATCH", 1)
    monkeypatch.setattr(eviction.log, "warning", lambda _, **figures: logged.append(figures))
    return logged


async def _lengthen_event_log(bus: Bus, id_: str) -> None:
    event = event_pb2.Event(correlation_id="x" * LONG)
    await bus.publish(bus.names.event(id_, "long"), event.SerializeToString())


async def _ended_job(bus: Bus, days_ago: int = 0) -> str:
    job = job_pb2.Job(job_id=new_id(), state=job_pb2.JOB_STATE_SUCCEEDED)
    job.end_time.FromDatetime(datetime.now(UTC) - timedelta(days=days_ago))
    await JobStore(bus).create(job_pb2.JobRecord(job=job))
    return job.job_id


async def _settled_collection(bus: Bus, collection_id: str = "") -> str:
    collection = collection_pb2.Collection(collection_id=collection_id or new_id(), settled=True)
    await CollectionStore(bus).create(collection_pb2.CollectionRecord(collection=collection))
    return collection.collection_id


async def test_collections_and_jobs_go_in_one_order_of_age_which_counts_from_the_end(
    start: Start, small: Bus, trims: list[dict[str, Any]]
) -> None:
    accepted_first = new_id()
    made = [
        await _settled_collection(small),
        await _ended_job(small),
        await _settled_collection(small),
        await _ended_job(small),
        await _settled_collection(small, accepted_first),
    ]
    for id_ in made:
        await _lengthen_event_log(small, id_)

    async with start(trim_percent=50):
        await until(lambda: _has_logged(trims))

    assert trims == [{"jobs_removed": 1, "collections_removed": 1, "still_over_by": 0}]
    left = [bool(await traces(small, id_)) for id_ in made]
    assert left == [False, False, True, True, True]


async def _has_logged(logged: list[dict[str, Any]]) -> bool:
    return bool(logged)


async def test_a_collection_outlives_its_jobs_and_says_what_became_of_them(
    start: Start, small: Bus, trims: list[dict[str, Any]]
) -> None:
    async with start() as client:
        made = await collect(client, *addresses(4))
        before, members = await settled(client, made.collection_id)
    for member in members:
        await _lengthen_event_log(small, member.job_id)

    async with start(trim_percent=20) as client:
        await until(lambda: _has_logged(trims))
        after, shown = await read(client, made.collection_id)
        missing = [await gone(client, member.job_id) for member in shown]

    assert trims[0].items() >= {"jobs_removed": 3, "collections_removed": 0}.items()
    assert (after, shown) == (before, members)
    assert sorted(missing) == [False, True, True, True]


async def test_settled_collections_go_with_every_trace_and_others_stay(
    start: Start, script: Script, small: Bus
) -> None:
    slow = addresses(2, "slow")
    script.hanging = {slow[1]}
    async with start() as client:
        ended = await collect(client, *addresses(1), request_id="mine")
        await settled(client, ended.collection_id)
        going = await collect(client, *slow)
        await until_states(client, going.collection_id, COMPLETED=1, RUNNING=1)
        _, (completed, _) = await read(client, going.collection_id)

    async with start(trim_percent=0.001) as client:
        await until(lambda: collection_gone(client, ended.collection_id))
        assert await traces(small, ended.collection_id) == []
        await until(lambda: gone(client, completed.job_id))
        script.go_on.set()
        collection, members = await settled(client, going.collection_id)

    assert counts(collection) == {"COMPLETED": 2}
    assert states(members) == ["COMPLETED", "COMPLETED"]


async def test_eviction_for_event_logs_spares_jobs_without_an_event_log(
    start: Start, small: Bus, trims: list[dict[str, Any]]
) -> None:
    ancient = await _ended_job(small, days_ago=31)
    made = [await _ended_job(small) for _ in range(4)]
    for job_id in made:
        await _lengthen_event_log(small, job_id)

    async with start(trim_percent=50, retention_hours=0):
        await until(lambda: _has_logged(trims))

    assert trims == [{"jobs_removed": 1, "collections_removed": 0, "still_over_by": 0}]
    left = [bool(await traces(small, job_id)) for job_id in (ancient, *made)]
    assert left == [True, False, True, True, True]


async def test_eviction_for_files_spares_jobs_and_collections_without_files(
    start: Start, small: Bus, trims: list[dict[str, Any]], tmp_path: Path
) -> None:
    without_files = [await _settled_collection(small), await _ended_job(small)]
    text = tmp_path / "text"
    text.write_bytes(b"x" * LONG)
    with_files = [await _ended_job(small) for _ in range(2)]
    for job_id in with_files:
        await Artifacts(small).put_file(job_id, TRANSCRIPT, text)

    async with start(trim_percent=5):
        await until(lambda: _has_logged(trims))

    assert trims == [{"jobs_removed": 1, "collections_removed": 0, "still_over_by": 0}]
    assert await traces(small, with_files[0]) == []
    for id_ in [*without_files, with_files[1]]:
        assert await traces(small, id_)


@pytest.fixture
async def crowded(start: Start) -> list[job_pb2.Job]:
    """Three ended jobs whose files take well over one per cent of a small store."""
    made = []
    async with start(storage_bytes=64 * 1024**2) as client:
        for number in range(3):
            job = await client.upload(*[SECOND] * 10, file_name=f"{number}.wav")
            made.append(await client.finished(job.job_id))
    return made


async def test_a_crowded_store_loses_the_oldest_jobs_files_but_no_text(
    start: Start, crowded: list[job_pb2.Job], broker: Broker
) -> None:
    async with start(trim_percent=1.5) as client, connected(broker) as bus:
        inventory = Inventory(bus)

        async def uploads() -> list[str]:
            return [file.job_id async for file in inventory.files() if file.name == UPLOAD]

        async def trimmed() -> bool:
            return len(await uploads()) < 3

        await until(trimmed)
        assert crowded[0].job_id not in await uploads()
        assert crowded[2].job_id in await uploads()
        assert (await client.text(crowded[0].job_id)).startswith("word 1\nword 2\n")
        oldest = await client.job(crowded[0].job_id)
        assert [artifact.name for artifact in oldest.artifacts] in ([], ["audio.webm"])
        assert (await client.job(crowded[2].job_id)).artifacts


async def test_the_oldest_jobs_are_removed_if_removing_files_frees_too_little(
    start: Start, crowded: list[job_pb2.Job]
) -> None:
    async with start(trim_percent=0.001) as client:
        for job in crowded:
            await until(lambda job=job: gone(client, job.job_id))


async def test_a_running_job_keeps_its_files_however_full_the_store(
    start: Start, script: Script
) -> None:
    script.pause_before_segment = 1
    async with start() as client:
        job = await client.upload(*[SECOND] * 3, file_name="x.wav")
        await script.until_paused()
    async with start(trim_percent=0.001) as client:
        script.go_on.set()
        ended = await client.finished(job.job_id)
        assert (ended.state, ended.segment_count) == (job_pb2.JOB_STATE_SUCCEEDED, 3)
