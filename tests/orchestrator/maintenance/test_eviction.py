"""What goes when a store gets too full, in which order, and what must never go."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mesh.broker import Broker
from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.stores import Limits
from orchestrator import trimming
from orchestrator.artifacts import TRANSCRIPT, UPLOAD, Artifacts
from orchestrator.collections.records import CollectionRecords
from orchestrator.jobs import Jobs
from orchestrator.shelves import Shelves
from tests.orchestrator.conftest import Start
from tests.orchestrator.gatherings import (
    addresses,
    collect,
    collection_gone,
    counts,
    read,
    settled,
    states,
    until_states,
)
from tests.orchestrator.polling import until
from tests.orchestrator.scripted import SECOND, Script
from tests.orchestrator.traces import gone, traces
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2

pytestmark = pytest.mark.usefixtures("sweeps_at_once")

SMALL = 16 * 1024**2
"""Of this the stories may take a sixth, about 2.7 MB."""
LONG = 400_000


@pytest.fixture
async def small(broker: Broker) -> AsyncIterator[Bus]:
    """Stores smaller than an orchestrator would make them."""
    async with Bus.connected(broker.url, limits=Limits(storage_bytes=SMALL)) as bus:
        yield bus


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each trimming says at its end; the stores are looked at after each removal."""
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(trimming, "GROUP", 1)
    monkeypatch.setattr(trimming.log, "warning", lambda _, **figures: told.append(figures))
    return told


async def _lengthen_story(bus: Bus, id_: str) -> None:
    event = event_pb2.Event(correlation_id="x" * LONG)
    await bus.publish(bus.names.event(id_, "long"), event.SerializeToString())


async def _ended_job(bus: Bus, days_ago: int = 0) -> str:
    job = job_pb2.Job(job_id=new_id(), state=job_pb2.JOB_STATE_SUCCEEDED)
    job.end_time.FromDatetime(datetime.now(UTC) - timedelta(days=days_ago))
    await Jobs(bus).create(job_pb2.JobRecord(job=job))
    return job.job_id


async def _settled_collection(bus: Bus, collection_id: str = "") -> str:
    collection = collection_pb2.Collection(collection_id=collection_id or new_id(), settled=True)
    await CollectionRecords(bus).create(collection_pb2.CollectionRecord(collection=collection))
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
        await _lengthen_story(small, id_)

    async with start(trim_percent=50):
        await until(lambda: _has_told(trims))

    assert trims == [{"jobs_removed": 1, "collections_removed": 1, "still_over_by": 0}]
    left = [bool(await traces(small, id_)) for id_ in made]
    assert left == [False, False, True, True, True]


async def _has_told(told: list[dict[str, Any]]) -> bool:
    return bool(told)


async def test_a_collection_outlives_its_jobs_and_says_what_became_of_them(
    start: Start, small: Bus, trims: list[dict[str, Any]]
) -> None:
    async with start() as client:
        made = await collect(client, *addresses(4))
        before, members = await settled(client, made.collection_id)
    for member in members:
        await _lengthen_story(small, member.job_id)

    async with start(trim_percent=20) as client:
        await until(lambda: _has_told(trims))
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
        _, (heard, _) = await read(client, going.collection_id)

    async with start(trim_percent=0.001) as client:
        await until(lambda: collection_gone(client, ended.collection_id))
        assert await traces(small, ended.collection_id) == []
        await until(lambda: gone(client, heard.job_id))
        script.go_on.set()
        collection, members = await settled(client, going.collection_id)

    assert counts(collection) == {"COMPLETED": 2}
    assert states(members) == ["COMPLETED", "COMPLETED"]


async def test_what_has_outlived_its_story_stays_while_only_stories_take_too_much(
    start: Start, small: Bus, trims: list[dict[str, Any]]
) -> None:
    ancient = await _ended_job(small, days_ago=31)
    made = [await _ended_job(small) for _ in range(4)]
    for job_id in made:
        await _lengthen_story(small, job_id)

    async with start(trim_percent=50, retention_hours=0):
        await until(lambda: _has_told(trims))

    assert trims == [{"jobs_removed": 1, "collections_removed": 0, "still_over_by": 0}]
    left = [bool(await traces(small, job_id)) for job_id in (ancient, *made)]
    assert left == [True, False, True, True, True]


async def test_what_holds_no_file_stays_while_only_files_take_too_much(
    start: Start, small: Bus, trims: list[dict[str, Any]], tmp_path: Path
) -> None:
    kept = [await _settled_collection(small), await _ended_job(small)]
    text = tmp_path / "text"
    text.write_bytes(b"x" * LONG)
    heard = [await _ended_job(small) for _ in range(2)]
    for job_id in heard:
        await Artifacts(small).put_file(job_id, TRANSCRIPT, text)

    async with start(trim_percent=5):
        await until(lambda: _has_told(trims))

    assert trims == [{"jobs_removed": 1, "collections_removed": 0, "still_over_by": 0}]
    assert await traces(small, heard[0]) == []
    for id_ in [*kept, heard[1]]:
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
    async with start(trim_percent=1.5) as client, Bus.connected(broker.url) as bus:
        shelves = Shelves(bus)

        async def uploads() -> list[str]:
            return [file.job_id async for file in shelves.files() if file.name == UPLOAD]

        async def trimmed() -> bool:
            return len(await uploads()) < 3

        await until(trimmed)
        assert crowded[0].job_id not in await uploads()
        assert crowded[2].job_id in await uploads()
        assert (await client.text(crowded[0].job_id)).startswith("word 1\nword 2\n")
        oldest = await client.job(crowded[0].job_id)
        assert [kept.name for kept in oldest.artifacts] in ([], ["audio.webm"])
        assert (await client.job(crowded[2].job_id)).artifacts


async def test_files_not_enough_the_oldest_jobs_go(
    start: Start, crowded: list[job_pb2.Job]
) -> None:
    async with start(trim_percent=0.001) as client:
        for job in crowded:
            await until(lambda job=job: gone(client, job.job_id))  # type: ignore[misc]


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
