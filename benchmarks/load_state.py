"""Measures how fast jobs are accepted, finished and found again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from itertools import chain, cycle
from pathlib import Path
from time import perf_counter, time

from google.protobuf.timestamp_pb2 import Timestamp
from nats.js import JetStreamContext, api

from benchmarks.load_figures import MB, Figure, spread
from benchmarks.load_mesh import (
    MIB,
    Orchestrator,
    Site,
    hasty_broker,
    running_orchestrator,
    running_stages,
)
from benchmarks.load_stages import Plan
from benchmarks.processes import Observed
from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.stores import Limits
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

RECORD_BYTES = 500
IN_FLIGHT = 64
RAW_STORES = f"machine: JetStream stores, {IN_FLIGHT} at once"
SEEDERS = 256
RUNNERS = 2
LANES = 8
"""Jobs each runner has under way at once."""
FINISHED = f"null-stage jobs finished, two orchestrators, {LANES} at once each"
POLL_SECONDS = 0.25
RECORD_ROOM = 16_000
"""Bytes of storage to set aside for a stored job: its record gets the twelfth part."""


async def in_parallel(count: int, callers: int, act: Callable[[int], Awaitable[object]]) -> float:
    """Seconds it takes to act that often with so many at once."""
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            await act(number)

    began = perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    return perf_counter() - began


async def publishing(site: Site, messages: int) -> list[Figure]:
    """The machine's own limit: what JetStream stores a second, without us."""
    broker = site.broker
    async with Bus.connected(
        broker.url,
        credentials=broker.credentials,
        prefix="RAW",
        limits=_small(),
        tls=site.caller,
    ) as bus:
        js: JetStreamContext = bus.jetstream
        await js.add_stream(api.StreamConfig(name="RAW_SCRATCH", subjects=["raw.scratch.*"]))

        async def publish(number: int) -> None:
            await js.publish(f"raw.scratch.{number}", bytes(RECORD_BYTES))

        alone = await in_parallel(max(1, messages // 4), 1, publish)
        together = await in_parallel(messages, IN_FLIGHT, publish)
        await js.delete_stream("RAW_SCRATCH")
    return [
        Figure("machine: JetStream stores, one after another", messages // 4 / alone, "/s"),
        Figure(RAW_STORES, messages / together, "/s"),
    ]


def _small() -> Limits:
    return Limits(storage_bytes=128 * MIB)


async def accepting(
    site: Site, jobs: int, callers: int, least_stores: float | None = None
) -> list[Figure]:
    """CreateJob with no stage up, so that nothing else runs; the target is in stores a second."""
    async with running_orchestrator(site, "ACCEPT") as orchestrator:
        before = await _stored(site, "ACCEPT")
        whole, each = await create_jobs([orchestrator], jobs, callers)
        stores = (await _stored(site, "ACCEPT") - before) / jobs
        stats = await orchestrator.admin.GetStats(admin_pb.GetStatsRequest())
    if stats.queue_depth != jobs:
        raise RuntimeError(f"{jobs} jobs were accepted, {stats.queue_depth} are queued")
    least = None if least_stores is None else least_stores / stores
    return [
        Figure("stores a job takes until it is accepted", stores, ""),
        Figure(f"jobs accepted durably, {callers} callers", jobs / whole, "/s", least),
        *spread("CreateJob", each),
    ]


async def _stored(site: Site, prefix: str) -> int:
    """Messages ever stored in the streams and buckets with that prefix."""
    client = await site.broker.connect("orchestrator")
    try:
        found = await client.jetstream().streams_info()
    finally:
        await client.close()
    return sum(one.state.last_seq for one in found if prefix in (one.config.name or ""))


async def create_jobs(
    orchestrators: Sequence[Orchestrator], jobs: int, callers: int
) -> tuple[float, list[float]]:
    """Seconds of all together, then of each."""
    stubs = cycle(chain.from_iterable(zip(*(one.pipelines for one in orchestrators), strict=True)))
    each: list[float] = []

    async def create(number: int) -> None:
        request = pb.CreateJobRequest(source_url=Plan(number=number).url, force=True)
        began = perf_counter()
        await next(stubs).CreateJob(request)
        each.append(perf_counter() - began)

    return await in_parallel(jobs, callers, create), each


async def finishing(
    site: Site,
    jobs: int,
    callers: int,
    least: float | None = None,
    raw_stores: float | None = None,
) -> list[Figure]:
    """Whole jobs through stages that take no time, over two orchestrators."""
    async with AsyncExitStack() as stack:
        start = [running_orchestrator(site, "FINISH", concurrency=LANES) for _ in range(RUNNERS)]
        orchestrators = [await stack.enter_async_context(one) for one in start]
        await create_jobs(orchestrators, jobs, callers)
        before, broker = await _stored(site, "FINISH"), Observed(site.broker.pid)
        idle = sum(one.cpu_seconds for one in orchestrators), broker.cpu_seconds
        async with running_stages(site):
            while await succeeded(orchestrators[0]) < jobs:  # noqa: ASYNC110 # another process
                await asyncio.sleep(POLL_SECONDS)
            stores = (await _stored(site, "FINISH") - before) / jobs
            worked = sum(one.cpu_seconds for one in orchestrators) - idle[0]
            broker_worked = broker.cpu_seconds - idle[1]
        done = await _all_jobs(orchestrators[0])
    first = min(_seconds(job.start_time) for job in done)
    last = max(_seconds(job.end_time) for job in done)
    figures = [Figure(FINISHED, jobs / (last - first), "/s", least)]
    if raw_stores is not None:
        figures.append(Figure("machine: as many as the broker stores", raw_stores / stores, "/s"))
    return [
        *figures,
        Figure("… stores a job takes from there to its end", stores, ""),
        Figure("… processor time a job, both orchestrators", worked / jobs * 1000, "ms"),
        Figure("… processor time a job, the broker", broker_worked / jobs * 1000, "ms"),
    ]


async def succeeded(orchestrator: Orchestrator) -> int:
    """Jobs that did; none may have failed."""
    stats = await orchestrator.admin.GetStats(admin_pb.GetStatsRequest())
    counts = {found.state: int(found.count) for found in stats.jobs}
    if counts.get(job_pb2.JOB_STATE_FAILED):
        raise RuntimeError("a null-stage job failed")
    return counts.get(job_pb2.JOB_STATE_SUCCEEDED, 0)


async def _all_jobs(orchestrator: Orchestrator) -> list[job_pb2.Job]:
    found: list[job_pb2.Job] = []
    token = ""
    while True:
        request = pb.ListJobsRequest(page_size=200, page_token=token)
        page = await orchestrator.pipelines[0].ListJobs(request)
        found += page.jobs
        token = page.next_page_token
        if not token:
            return found


def _seconds(timestamp: Timestamp) -> float:
    return timestamp.ToNanoseconds() / 1e9


async def listing(site: Site, stored: int, calls: int) -> list[Figure]:
    """Queries with many jobs stored, by seed()."""
    async with running_orchestrator(site, "STORED", storage=_storage_for(stored)) as orchestrator:
        stub, admin = orchestrator.pipelines[0], orchestrator.admin
        first = pb.ListJobsRequest()
        failed = pb.ListJobsRequest(states=[job_pb2.JOB_STATE_FAILED])
        page = await stub.ListJobs(first)
        if page.total_size != stored:
            raise RuntimeError(f"{stored} jobs are stored, {page.total_size} are listed")
        some = pb.GetJobRequest(job_id=page.jobs[-1].job_id)
        return [
            Figure(f"orchestrator ready with {stored:,} stored", orchestrator.ready_seconds, "s"),
            *spread("machine: a call that does nothing", await _timed(calls, orchestrator.ping)),
            *spread("ListJobs, first page", await _timed(calls, lambda: stub.ListJobs(first)), 20),
            *spread("ListJobs, one rare state", await _timed(calls, lambda: stub.ListJobs(failed))),
            *spread("GetJob", await _timed(calls, lambda: stub.GetJob(some))),
            *spread(
                "GetStats",
                await _timed(calls, lambda: admin.GetStats(admin_pb.GetStatsRequest())),
            ),
            Figure("orchestrator's memory with them", orchestrator.rss / MB, "MB"),
        ]


async def _timed(calls: int, act: Callable[[], Awaitable[object]]) -> list[float]:
    times = []
    for _ in range(calls):
        began = perf_counter()
        await act()
        times.append(perf_counter() - began)
    return times


def _storage_for(stored: int) -> int:
    return max(512 * MIB, stored * RECORD_ROOM)


async def seed(data_dir: Path, stored: int) -> None:
    """Writes the records past any orchestrator, into a broker that need not hurry to the disk."""
    limits = Limits(storage_bytes=_storage_for(stored))
    async with (
        hasty_broker(data_dir) as broker,
        Bus.connected(
            broker.url, credentials=broker.credentials, prefix="STORED", limits=limits
        ) as bus,
    ):
        subject = f"$KV.{bus.names.jobs_bucket}."

        async def put(number: int) -> None:
            record = a_record(number)
            await bus.publish(subject + record.job.job_id, record.SerializeToString())

        await in_parallel(stored, SEEDERS, put)


def a_record(number: int) -> job_pb2.JobRecord:
    """A job as it looks when it is over; one in a thousand failed."""
    failed = number % 1000 == 0
    now = Timestamp()
    now.FromNanoseconds(int(time() * 1e9))
    job = job_pb2.Job(
        job_id=new_id(),
        correlation_id=new_id(),
        source=job_pb2.Source(url=f"https://example.test/watch?v={number}"),
        state=job_pb2.JOB_STATE_FAILED if failed else job_pb2.JOB_STATE_SUCCEEDED,
        attempt=1,
        max_attempts=4,
        create_time=now,
        update_time=now,
        start_time=now,
        end_time=now,
        model="base",
        language="en",
        segment_count=240,
        progress=1.0,
    )
    job.media.title = f"A talk about nothing in particular, part {number}"
    for stage in (1, 2, 3):
        job.stages.add(
            stage=stage,
            state=job_pb2.STAGE_STATE_COMPLETED,
            attempt=1,
            start_time=now,
            end_time=now,
        )
    return job_pb2.JobRecord(job=job, runner_id=new_id())
