"""What is removed once it is old, and what must never be."""

import os
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration import from_timedelta
from google.protobuf.duration_pb2 import Duration

from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from mesh.status import reason_of
from mesh.tokens import write_token
from orchestrator.collections.control import AT_ANY_TIME, CollectionControl
from orchestrator.collections.feed import CollectionFeed
from orchestrator.collections.index import CollectionIndex
from orchestrator.collections.members import COMPLETED, RUNNING, MemberStateId
from orchestrator.collections.projection import Projections
from orchestrator.collections.records import CollectionStore
from orchestrator.jobs.control import JobControl, Removed
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import JobStore
from orchestrator.maintenance.inventory import Inventory
from orchestrator.maintenance.owners import OwnerStore
from orchestrator.maintenance.retention import Limit, Retention
from orchestrator.queue.work_queue import CollectionQueue, WorkQueue
from orchestrator.quotas.quotas import Quotas
from orchestrator.quotas.records import QuotaStore
from orchestrator.tasks.control import TaskControl
from orchestrator.tasks.exchange import Exchange
from orchestrator.tasks.queue import TaskQueue
from orchestrator.tasks.records import TaskIndex, TaskStore
from orchestrator.tasks.storage import TaskStorage
from orchestrator.watch.event_feed import FeedPool, JobFeed
from orchestrator.webhooks.pending import PendingWebhooks
from orchestrator.webhooks.queue import forget_webhooks
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.conftest import Start, connected
from tests.support.broker import Broker
from tests.support.client import Client
from tests.support.polling import until
from tests.support.scripted import SECOND, Script
from tests.support.traces import gone, traces
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

pytestmark = pytest.mark.usefixtures("sweeps_at_once")

AT_ONCE = from_timedelta(timedelta())


async def _cleanup(client: Client, **fields: Any) -> admin_pb.CleanupResponse:
    return await client.admin.Cleanup(admin_pb.CleanupRequest(**fields))


async def test_cleanup_removes_old_ended_jobs_with_every_trace(
    client: Client, script: Script, bus: Bus
) -> None:
    uploaded = await client.upload(SECOND, file_name="x.wav", request_id="mine")
    await client.finished(uploaded.job_id)
    script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]
    dead = await client.create()
    await client.finished(dead.job_id)
    script.pause_before_segment = 2
    running = await client.create()
    await script.until_paused()

    counted = await _cleanup(client, max_age=AT_ONCE, dry_run=True)
    assert await traces(bus, uploaded.job_id)
    done = await _cleanup(client, max_age=AT_ONCE)

    assert counted == done
    assert (done.jobs_removed, done.artifacts_removed) == (2, 3)
    assert done.events_removed > 10
    assert done.bytes_removed > len(SECOND)
    assert await traces(bus, uploaded.job_id) == await traces(bus, dead.job_id) == []
    assert (await client.job(running.job_id)).state == job_pb2.JOB_STATE_RUNNING
    script.go_on.set()
    assert (await client.finished(running.job_id)).segment_count == 6


async def test_cleanup_spares_jobs_that_ended_within_a_day_by_default(client: Client) -> None:
    job = await client.create()
    await client.finished(job.job_id)

    assert (await _cleanup(client)).jobs_removed == 0
    an_hour = from_timedelta(timedelta(hours=1))
    assert (await _cleanup(client, max_age=an_hour)).jobs_removed == 0
    assert not await gone(client, job.job_id)


async def _ended_job(bus: Bus, *, accepted: float, ended: float, collection_id: str = "") -> str:
    """A job accepted and ended so many seconds ago."""
    stamp = f"{int((time.time() - accepted) * 1000):012x}"
    job_id = f"{stamp[:8]}-{stamp[8:]}{new_id()[13:]}"
    job = job_pb2.Job(job_id=job_id, state=job_pb2.JOB_STATE_CANCELLED, collection_id=collection_id)
    job.end_time.FromNanoseconds(int((time.time() - ended) * 1e9))
    await JobStore(bus).create(job_pb2.JobRecord(job=job))
    return job_id


async def test_the_age_of_a_job_counts_from_its_end(client: Client, bus: Bus) -> None:
    long_job = await _ended_job(bus, accepted=9000, ended=3000)
    old_job = await _ended_job(bus, accepted=9000, ended=4000)

    done = await _cleanup(client, max_age=from_timedelta(timedelta(hours=1)))

    assert done.jobs_removed == 1
    assert await gone(client, old_job)
    assert not await gone(client, long_job)


async def _append_member(event_log: EventLogWriter, state: MemberStateId, job_id: str) -> None:
    member = collection_pb2.Member(number=1, state=state, job_id=job_id)
    changed = event_pb2.MemberChanged(member=member)
    await event_log.append(member_changed=changed)


async def test_a_job_stays_until_its_collection_has_counted_its_end(
    client: Client, bus: Bus
) -> None:
    # As an orchestrator that dies at the wrong moment leaves it: no controller has it yet.
    collection = collection_pb2.Collection(collection_id=new_id())
    event_log = EventLogWriter(bus, collection, 0)
    start = event_pb2.StartCollection()
    await event_log.append(start_collection=start)
    await CollectionStore(bus).create(collection_pb2.CollectionRecord(collection=collection))
    job_id = await _ended_job(bus, accepted=9, ended=3, collection_id=collection.collection_id)
    await _append_member(event_log, RUNNING, job_id)

    counted = await _cleanup(client, max_age=AT_ONCE, dry_run=True)
    uncounted = await _cleanup(client, max_age=AT_ONCE)
    await _append_member(event_log, COMPLETED, job_id)
    after_count = await _cleanup(client, max_age=AT_ONCE)

    assert counted == uncounted == admin_pb.CleanupResponse()
    assert (after_count.jobs_removed, after_count.collections_removed) == (1, 0)


async def test_a_collection_reopened_after_it_was_chosen_for_removal_stays(bus: Bus) -> None:
    records, index = CollectionStore(bus), JobIndex(bus)
    work = WorkQueue(bus, ack_wait_seconds=60, max_deliveries=5)
    storage = JobStorage.on(bus)
    until_ended = FeedPool(partial(JobFeed, bus, storage.event_logs)).until_ended
    quotas = Quotas(QuotaStore(bus), index.usage, index.catch_up, PendingWebhooks(bus).of, {})
    forget = partial(forget_webhooks, bus)
    tasks = TaskStorage(storage, TaskStore(bus), TaskQueue(bus), TaskIndex(index))
    jobs = JobControl(storage, work, until_ended, forget, quotas.keep_audio)
    control = CollectionControl(
        bus,
        records,
        CollectionQueue(bus),
        FeedPool(partial(CollectionFeed, bus, storage.event_logs, index.progress)),
        CollectionIndex(index),
        Projections(storage.event_logs, records),
        jobs,
        TaskControl(tasks, Exchange(tasks), CollectionQueue(bus).put),
    )
    retention = Retention(storage, Inventory(bus), index, jobs, control, OwnerStore(bus))
    collection = collection_pb2.Collection(collection_id=new_id(), settled=True)
    versioned = await records.create(collection_pb2.CollectionRecord(collection=collection))
    [chosen] = await retention.candidates(Limit(AT_ANY_TIME))

    versioned.collection.settled = False
    await records.save(versioned)
    reopened = await retention.remove(chosen, AT_ANY_TIME)
    still_there = (await records.get(chosen.id)).collection.settled is False
    versioned.collection.settled = True
    await records.save(versioned)

    assert (reopened, still_there) == (Removed(), True)
    assert await retention.remove(chosen, AT_ANY_TIME) == Removed(collections=1)


@pytest.mark.parametrize("seconds", [-1, 2**62])
async def test_an_impossible_age_is_refused(client: Client, seconds: int) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _cleanup(client, max_age=Duration(seconds=seconds))

    assert reason_of(caught.value) == "REQUEST_INVALID"


async def test_many_jobs_are_cleaned_up_over_pages(client: Client, bus: Bus) -> None:
    for _ in range(230):
        await _ended_job(bus, accepted=2, ended=1)

    done = await _cleanup(client, max_age=AT_ONCE)

    assert done.jobs_removed == 230
    listed = await client.pipeline.ListJobs(pb.ListJobsRequest())
    assert listed.total_size == 0


async def test_retention_removes_old_jobs_in_every_replica_at_once(
    start: Start, broker: Broker
) -> None:
    async with start() as client:
        made = [await client.create(request_id=f"r{number}") for number in range(5)]
        for job in made:
            await client.finished(job.job_id)

    async with (
        start(retention_hours=1e-6) as one,
        start(retention_hours=1e-6) as other,
        connected(broker) as bus,
    ):
        for job in made:
            await until(lambda job=job: gone(one, job.job_id))
            assert await traces(bus, job.job_id) == []
        listed = await other.pipeline.ListJobs(pb.ListJobsRequest())
        assert listed.total_size == 0
        assert (await one.create(request_id="r0")).job_id != made[0].job_id


async def test_no_retention_keeps_jobs_for_ever(
    start: Start, broker: Broker, tmp_path: Path
) -> None:
    async with start(), connected(broker) as bus:
        ancient = await _ended_job(bus, accepted=1e9, ended=1e9 - 1)
    left = tmp_path / "work" / "upload-left"
    left.write_bytes(b"")
    os.utime(left, (1, 1))

    async with start(retention_hours=0) as client:

        async def swept() -> bool:
            """Leftovers are looked for last."""
            return not left.exists()

        await until(swept)
        assert not await gone(client, ancient)


async def test_an_owners_work_is_kept_for_the_owners_own_time(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_token(tmp_path / "first.token")
    login: dict[str, Any] = {"login": True, "token_file": str(tmp_path / "first.token")}
    monkeypatch.setattr("orchestrator.maintenance.housekeeper.INTERVAL_SECONDS", 0.1)
    async with start(**login, retention_hours=720) as one, start(**login) as other:
        admin = one.with_token(first)
        made = {}
        for name in ("ana", "bia"):
            client = one.with_token((await token_for(admin, name)).secret)
            made[name] = (await client.finished((await client.create()).job_id)).job_id

        request = admin_pb.SetOwnerRetentionRequest(owner="ana", retention=AT_ONCE)
        await admin.admin.SetOwnerRetention(request)

        # On whichever orchestrator looks first: the setting is stored.
        await until(lambda: gone(admin, made["ana"]))
        assert not await gone(admin, made["bia"])
        listed = await other.with_token(first).admin.ListOwnerRetentions(
            admin_pb.ListOwnerRetentionsRequest()
        )
        assert [entry.owner for entry in listed.retentions] == ["ana"]


async def test_a_longer_time_of_an_owner_outlasts_the_usual_one(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_token(tmp_path / "first.token")
    login: dict[str, Any] = {"login": True, "token_file": str(tmp_path / "first.token")}
    async with start(**login) as one:
        admin = one.with_token(first)
        made = {}
        for name in ("ana", "bia"):
            client = one.with_token((await token_for(admin, name)).secret)
            made[name] = (await client.finished((await client.create()).job_id)).job_id
        week = from_timedelta(timedelta(days=7))
        request = admin_pb.SetOwnerRetentionRequest(owner="ana", retention=week)
        await admin.admin.SetOwnerRetention(request)
    monkeypatch.setattr("orchestrator.maintenance.housekeeper.INTERVAL_SECONDS", 0.1)
    async with start(**login, retention_hours=1e-9) as one:
        admin = one.with_token(first)

        await until(lambda: gone(admin, made["bia"]))
        assert not await gone(admin, made["ana"])

        # Back to the usual time.
        await admin.admin.SetOwnerRetention(admin_pb.SetOwnerRetentionRequest(owner="ana"))
        await until(lambda: gone(admin, made["ana"]))
        for owner, days in (("", 1), ("ana", -1), ("ana", 40_000), ("a\nb", 1)):
            age = from_timedelta(timedelta(days=days))
            request = admin_pb.SetOwnerRetentionRequest(owner=owner, retention=age)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await admin.admin.SetOwnerRetention(request)
            assert reason_of(caught.value) == Reason.REQUEST_INVALID
