"""A dry run reports the figures of the run that follows it."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.duration import from_timedelta
from google.protobuf.timestamp_pb2 import Timestamp

from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from orchestrator.jobs.artifacts import UPLOAD, Artifacts
from tests.support.client import Client
from tests.support.collections import (
    Member,
    addresses,
    collect,
    collection_gone,
    counts,
    read,
    settled,
    until_states,
)
from tests.support.polling import until
from tests.support.scripted import SECOND, Script
from tests.support.traces import traces
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2


async def _cleanup(client: Client, *, dry_run: bool = False) -> pb.CleanupResponse:
    at_once = from_timedelta(timedelta())
    return await client.admin.Cleanup(pb.CleanupRequest(max_age=at_once, dry_run=dry_run))


async def _reset(client: Client, *, dry_run: bool = False) -> pb.ServiceReset:
    request = pb.FactoryResetRequest(confirmation="ERASE EVERYTHING", dry_run=dry_run)
    return (await client.admin.FactoryReset(request)).services[0]


async def _gathered(client: Client, script: Script) -> tuple[str, list[Member]]:
    """A settled collection of three; the last of them died."""
    private = SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)
    script.refusals = {addresses(3)[2]: [private]}
    made = await collect(client, *addresses(3), request_id="mine")
    _, members = await settled(client, made.collection_id)
    return made.collection_id, members


async def test_cleanup_counts_settled_collections_and_their_event_logs_and_spares_others(
    client: Client, bus: Bus, script: Script
) -> None:
    collection_id, members = await _gathered(client, script)
    script.hanging = {addresses(1, "slow")[0]}
    going = await collect(client, *addresses(2, "slow"))
    await until_states(client, going.collection_id, COMPLETED=1, RUNNING=1)
    _, (_, completed) = await read(client, going.collection_id)
    names = bus.names
    event_logs = [
        stored.data
        for id_ in (collection_id, *(member.job_id for member in (*members, completed)))
        async for stored in bus.read(names.events_stream, names.event(id_, "*"))
    ]

    counted = await _cleanup(client, dry_run=True)
    assert not await collection_gone(client, collection_id)
    done = await _cleanup(client)

    assert counted == done
    assert (done.jobs_removed, done.collections_removed) == (4, 1)
    assert done.events_removed == len(event_logs)
    assert done.bytes_removed > sum(map(len, event_logs))  # files, too
    assert await collection_gone(client, collection_id)
    assert await traces(bus, collection_id) == []
    assert await _cleanup(client) == pb.CleanupResponse()
    script.go_on.set()
    collection, _ = await settled(client, going.collection_id)
    assert counts(collection) == {"COMPLETED": 2}, "a job cleanup took away still counts"


async def test_a_reset_of_an_idle_mesh_removes_to_the_byte_what_was_counted(
    client: Client, bus: Bus, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "orchestrator.maintenance.reset.MIN_AGE", timedelta()
    )  # nothing here is too new
    await _gathered(client, script)
    uploaded = await client.upload(SECOND, file_name="x.wav", request_id="mine")
    await client.finished(uploaded.job_id)
    await client.delete((await client.create()).job_id)  # leaves a tombstone
    await until(lambda: _is_idle(bus))
    await _leave_behind(bus, tmp_path / "work")

    counted = await _reset(client, dry_run=True)
    done = await _reset(client)

    assert counted == done
    assert (done.jobs_removed, done.collections_removed, done.tasks_purged) == (4, 1, 1)
    assert done.bytes_removed > 3000 + len(SECOND)
    empty = pb.ServiceReset(name="orchestrator", done=True, logs_cleaned=True)
    assert await _reset(client, dry_run=True) == await _reset(client) == empty


async def _leave_behind(bus: Bus, work_dir: Path) -> None:
    """A file, chunks of one, work and scratch that belong to no job."""
    lost = work_dir / "upload-lost"
    lost.write_bytes(b"\0" * 1000)
    await Artifacts(bus).put_file(new_id(), UPLOAD, lost)
    os.utime(lost, (1, 1))
    await bus.publish(f"$O.{bus.names.artifacts_bucket}.C.halfmade", b"\0" * 1000)
    item = job_pb2.WorkItem(job_id=new_id(), enqueue_time=Timestamp(seconds=1))
    await bus.publish(bus.names.work("nobodys", item.job_id), item.SerializeToString())


async def _is_idle(bus: Bus) -> bool:
    """Items outlive the end of their job or collection by a moment."""
    names, stream_info = bus.names, bus.jetstream.stream_info
    infos = [await stream_info(one) for one in (names.work_stream, names.collections_stream)]
    return not any(info.state.messages for info in infos)


async def test_a_reset_stops_collections_that_run_and_counts_the_work_of_their_jobs(
    client: Client, bus: Bus, script: Script
) -> None:
    script.hanging = set(addresses(5))
    made = await collect(client, *addresses(5), max_in_flight=3, request_id="mine")
    await until_states(client, made.collection_id, RUNNING=2, PENDING=3)

    async def three_begun() -> bool:
        info = await bus.jetstream.stream_info(bus.names.work_stream)
        return info.state.messages == 3

    await until(three_begun)
    counted = await _reset(client, dry_run=True)
    assert not await collection_gone(client, made.collection_id)
    done = await _reset(client)

    figures = (done.jobs_removed, done.collections_removed, done.tasks_purged)
    assert figures == (3, 1, 3)
    assert figures == (counted.jobs_removed, counted.collections_removed, counted.tasks_purged)
    assert counted.files_removed == done.files_removed
    assert await collection_gone(client, made.collection_id)
    assert await traces(bus, made.collection_id) == []
    assert not (await client.admin.GetStats(pb.GetStatsRequest())).jobs
    assert await _is_idle(bus)
