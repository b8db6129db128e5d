"""Measures watchers: how soon events reach many of them, and what slow ones cost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import time
from typing import Any

import grpc

from benchmarks.load_bare import METHOD as CLOCK
from benchmarks.load_figures import MB, Figure, spread
from benchmarks.load_mesh import (
    Orchestrator,
    Site,
    connected,
    running_bare,
    running_orchestrator,
    running_stages,
)
from benchmarks.load_stages import Plan
from mesh.tasks import stop
from ytcaption.v1 import event_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

METHOD = "/ytcaption.v1.PipelineService/WatchJob"
BARE = "machine: bare gRPC to as many streams"
WATCHED = "event to watcher"
SOON = 0.1
SLOW_TEXT = 2000
SAMPLE_SECONDS = 0.2
SETTLE_SECONDS = 1.0
"""By then as much as will fit is on its way to those who do not read."""

Arrival = tuple[float, bytes]
Call = Any
"""A unary-stream call whose messages stay as they came: parsing is not what is measured."""


@contextmanager
def watching(orchestrator: Orchestrator, job_id: str, watchers: int) -> Iterator[list[Call]]:
    """That many open WatchJob calls, spread over the connections."""
    opens: list[Callable[..., Call]] = [
        channel.unary_stream(METHOD, pb.WatchJobRequest.SerializeToString)
        for channel in orchestrator.channels
    ]
    request = pb.WatchJobRequest(job_id=job_id, join_events=True)
    calls = [opens[number % len(opens)](request) for number in range(watchers)]
    try:
        yield calls
    finally:
        for call in calls:
            call.cancel()


async def attached(call: Call, messages: int = 2) -> None:
    """The snapshot and the first event have come: from here on, all is live."""
    for _ in range(messages):
        if await call.read() is grpc.aio.EOF:
            raise RuntimeError("a watch ended before it began")


async def rest(call: Call) -> list[Arrival]:
    """Everything that follows, with the time at which it came."""
    seen: list[Arrival] = []
    while (data := await call.read()) is not grpc.aio.EOF:
        seen.append((time(), data))
    return seen


async def bare_sending(site: Site, streams: int, ticks: int, every: float) -> list[Figure]:
    """The machine's own limit: as many streams of a server that does nothing else."""
    async with (
        running_bare(site, streams, ticks, every) as listen,
        connected(listen) as channels,
    ):
        opens: list[Callable[..., Call]] = [channel.unary_stream(CLOCK) for channel in channels]
        calls = [opens[number % len(opens)](b"", wait_for_ready=True) for number in range(streams)]
        event_logs = await asyncio.gather(*(rest(call) for call in calls))
    delays = [
        arrived - float(data) for event_log in event_logs for arrived, data in event_log if data
    ]
    return [
        *spread(BARE, delays),
        Figure("machine: of that within 100 ms", _share_soon(delays), "%"),
    ]


async def watchers_held(
    site: Site, watchers: int, plan: Plan, most_ms: float | None = None
) -> list[Figure]:
    """One job, many watchers: from an event's timestamp to its arrival."""
    async with running_orchestrator(site, "WATCH") as orchestrator:
        before = orchestrator.rss
        stub = orchestrator.pipelines[0]
        job = (await stub.CreateJob(pb.CreateJobRequest(source_url=plan.url, force=True))).job
        with watching(orchestrator, job.job_id, watchers) as calls:
            await asyncio.gather(*(attached(call) for call in calls))
            idle = orchestrator.cpu_seconds
            async with running_stages(site):
                event_logs = await asyncio.gather(*(rest(call) for call in calls))
        cost, worked = orchestrator.rss - before, orchestrator.cpu_seconds - idle
    messages = sum(map(len, event_logs))
    return [
        *_delays(event_logs, plan, most_ms),
        Figure("processor time a message to a watcher", worked / messages * 1e6, "µs"),
        Figure("memory a watcher", cost / watchers / 1000, "KB"),
    ]


def _delays(event_logs: list[list[Arrival]], plan: Plan, most_ms: float | None) -> list[Figure]:
    held = 0
    segments: list[float] = []
    others: list[float] = []
    progress = 0
    for event_log in event_logs:
        seen: Counter[int] = Counter()
        for arrived, data in event_log:
            response = pb.WatchJobResponse.FromString(data)
            progress += response.HasField("progress")
            for event in _events(response):
                delay = arrived - event.timestamp.ToNanoseconds() / 1e9
                if event.HasField("segment_settled"):
                    segments.append(delay)
                    seen[event.segment_settled.segment.index] += 1
                else:
                    others.append(delay)
        held += complete(seen, plan)
    every = segments + others
    return [
        Figure("watchers of one job held to its end", held, "", len(event_logs)),
        *spread(WATCHED, every, most_ms),
        Figure("events within 100 ms", _share_soon(every), "%"),
        *spread("segment to watcher", segments),
        Figure("segments within 100 ms", _share_soon(segments), "%"),
        Figure("progress figures a watcher", progress / len(event_logs), ""),
    ]


def stored_of(response: pb.WatchJobResponse) -> list[pb.StoredEvent]:
    """The stored events of a message, one or several."""
    if response.HasField("event"):
        return [pb.StoredEvent(sequence=response.sequence, event=response.event)]
    return list(response.events.events)


def _events(response: pb.WatchJobResponse) -> list[event_pb2.Event]:
    return [stored.event for stored in stored_of(response)]


def _share_soon(delays: list[float]) -> float:
    return 100 * sum(delay <= SOON for delay in delays) / max(1, len(delays))


def complete(seen: Counter[int], plan: Plan) -> bool:
    """Whether every segment came, and came once."""
    return seen == Counter(range(plan.segments))


async def slow_watchers(site: Site, watchers: int, segments: int) -> list[Figure]:
    """Watchers that read nothing while a whole event log is written, then read all of it."""
    plan = Plan(segments=segments, text=SLOW_TEXT)
    async with running_orchestrator(site, "SLOW") as orchestrator:
        stub = orchestrator.pipelines[0]
        job = (await stub.CreateJob(pb.CreateJobRequest(source_url=plan.url, force=True))).job
        with watching(orchestrator, job.job_id, watchers) as calls:
            await asyncio.gather(*(attached(call) for call in calls))
            before = orchestrator.rss
            async with running_stages(site), peak_of(orchestrator) as peak:
                async for _ in stub.WatchJob(pb.WatchJobRequest(job_id=job.job_id)):
                    pass  # to the end
                await asyncio.sleep(SETTLE_SECONDS)
                stalled = orchestrator.rss
                whole = [complete(await _segments(call), plan) for call in calls]
    return [
        Figure(f"slow watchers of an event log of {segments * SLOW_TEXT // 1000} KB", watchers, ""),
        Figure("memory before the event log", before / MB, "MB"),
        Figure("memory while they all stall", stalled / MB, "MB"),
        Figure("the most until all have read", max(peak) / MB, "MB"),
        Figure("slow watchers that lost or doubled a segment", whole.count(False), "", 0, "less"),
    ]


@asynccontextmanager
async def peak_of(orchestrator: Orchestrator) -> AsyncIterator[list[int]]:
    """Its memory, looked at again and again."""
    sizes = [orchestrator.rss]

    async def look() -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            sizes.append(orchestrator.rss)

    looking = asyncio.create_task(look())
    try:
        yield sizes
    finally:
        await stop(looking)


async def _segments(call: Call) -> Counter[int]:
    seen: Counter[int] = Counter()
    for _, data in await rest(call):
        for event in _events(pb.WatchJobResponse.FromString(data)):
            if event.HasField("segment_settled"):
                seen[event.segment_settled.segment.index] += 1
    return seen
