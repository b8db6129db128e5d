"""Holds many streams in several client processes: the watchers of one job, or bare streams.

One process of Python cannot open ten thousand streams and read them in time. Each client opens its
share, says that it is ready, reads to the end and answers what it saw: `python -m
benchmarks.load_crowd` with a `Share` as JSON.
"""

import asyncio
import gc
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import grpc

from benchmarks.children import child, last_words
from benchmarks.load_bare import METHOD as CLOCK
from benchmarks.load_figures import Figure, spread
from benchmarks.load_mesh import (
    Orchestrator,
    Site,
    connected,
    running_bare,
    running_orchestrator,
    running_stages,
)
from benchmarks.load_stages import Plan
from benchmarks.load_watch import METHOD, Arrival, Call, attached, rest, stored_of
from mesh.tasks import map_concurrently
from ytcaption.v1 import pipeline_service_pb2 as pb

BARE = "machine: bare gRPC to as many streams over two servers"
SERVERS = 2
CLIENTS = 4
"""Client processes."""
STREAMS_A_CONNECTION = 100
AT_ONCE = 100
"""Streams a client opens at once: a gRPC server cancels calls while a thousand are not begun."""
ROUNDING = 1e-4
"""Seconds to which clients round delays, so that their answers stay short."""
READY = "ready"


@dataclass(frozen=True, slots=True)
class Share:
    """The streams of one client."""

    address: str
    streams: int
    job_id: str = ""
    """The job to watch; "" for the streams of a bare server."""


@dataclass(slots=True)
class Seen:
    """What clients saw of their streams."""

    logs: Counter[str] = field(default_factory=Counter)
    """How many streams got exactly these sequences, in this order."""
    segments: Counter[str] = field(default_factory=Counter)
    """How many segments were that late, in units of `ROUNDING`."""
    others: Counter[str] = field(default_factory=Counter)
    """How many other events were."""

    def add(self, other: "Seen") -> None:
        """Takes in what another client saw."""
        self.logs += other.logs
        self.segments += other.segments
        self.others += other.others

    def to_json(self) -> str:
        """As a client answers it."""
        return json.dumps({"logs": self.logs, "segments": self.segments, "others": self.others})

    @classmethod
    def of_json(cls, text: str | bytes) -> "Seen":
        """As a client answered it."""
        return cls(**{name: Counter(counts) for name, counts in json.loads(text).items()})


async def hold(share: Share, say: Callable[[str], None]) -> Seen:
    """Opens the streams, says that they are open, and reads them to their end."""
    connections = max(1, -(-share.streams // STREAMS_A_CONNECTION))
    async with connected(share.address, connections) as channels:
        open_stream = _watch(share) if share.job_id else _listen

        async def begin(number: int) -> Call:
            call = open_stream(channels[number % connections])
            await attached(call, 2 if share.job_id else 1)
            return call

        calls = await map_concurrently(begin, range(share.streams), at_once=AT_ONCE)
        gc.freeze()
        say(READY)
        logs = await asyncio.gather(*map(rest, calls))
    return _seen(logs, share)


def _watch(share: Share) -> Callable[[grpc.aio.Channel], Call]:
    request = pb.WatchJobRequest(job_id=share.job_id, join_events=True)

    def open_stream(channel: grpc.aio.Channel) -> Call:
        watch: Any = channel.unary_stream(METHOD, pb.WatchJobRequest.SerializeToString)
        return watch(request, wait_for_ready=True)

    return open_stream


def _listen(channel: grpc.aio.Channel) -> Call:
    listen: Any = channel.unary_stream(CLOCK)
    return listen(b"", wait_for_ready=True)


def _seen(logs: Sequence[list[Arrival]], share: Share) -> Seen:
    seen = Seen()
    for log in logs:
        (_note_watch if share.job_id else _note_bare)(seen, log)
    return seen


def _note_bare(seen: Seen, log: list[Arrival]) -> None:
    seen.others.update(_rounded(arrived - float(data)) for arrived, data in log)


def _note_watch(seen: Seen, log: list[Arrival]) -> None:
    sequences = []
    for arrived, data in log:
        for stored in stored_of(pb.WatchJobResponse.FromString(data)):
            sequences.append(stored.sequence)
            late = _rounded(arrived - stored.event.timestamp.ToNanoseconds() / 1e9)
            kind = seen.segments if stored.event.HasField("segment_settled") else seen.others
            kind[late] += 1
    seen.logs[_named(sequences)] += 1


def _named(sequences: Sequence[int]) -> str:
    return " ".join(map(str, sequences))


def _rounded(seconds: float) -> str:
    return str(round(seconds / ROUNDING))


def _seconds(delays: Counter[str]) -> list[float]:
    return [int(late) * ROUNDING for late, count in delays.items() for _ in range(count)]


class Crowd:
    """Client processes whose streams are all open."""

    def __init__(self, clients: list[asyncio.subprocess.Process], log: Path) -> None:
        self._clients = clients
        self._log = log

    async def until_ready(self) -> None:
        """Waits until every client has opened its streams."""
        for line in await asyncio.gather(*map(self._line, self._clients)):
            if line.decode().strip() != READY:
                raise RuntimeError(f"a client failed: {last_words(self._log)}")

    async def seen(self) -> Seen:
        """What all clients saw, once their streams have ended."""
        seen = Seen()
        for line in await asyncio.gather(*map(self._line, self._clients)):
            if not line:
                raise RuntimeError(f"a client failed: {last_words(self._log)}")
            seen.add(Seen.of_json(line))
        return seen

    @staticmethod
    async def _line(client: asyncio.subprocess.Process) -> bytes:
        assert client.stdout is not None  # noqa: S101 # it is a pipe
        return await client.stdout.readline()


@asynccontextmanager
async def crowd(site: Site, shares: Sequence[Share]) -> AsyncIterator[Crowd]:
    """Clients until the block ends."""
    log = site.folder / "crowd.log"
    async with AsyncExitStack() as stack:
        clients = []
        for share in shares:
            words = [sys.executable, "-P", "-m", "benchmarks.load_crowd"]
            command = [*words, json.dumps(asdict(share))]
            clients.append(await stack.enter_async_context(child(command, {}, log, spoken_to=True)))
        yield Crowd(clients, log)


def divided(total: int, parts: int) -> list[int]:
    """As equal parts as there can be."""
    return [total // parts + (number < total % parts) for number in range(parts)]


def shares_of(addresses: Sequence[str], streams: int, **more: Any) -> list[Share]:
    """Divides the streams among the servers, and those of each among its clients."""
    return [
        Share(address, size, **more)
        for address, at_one in zip(addresses, divided(streams, len(addresses)), strict=True)
        for size in divided(at_one, CLIENTS // SERVERS)
        if size
    ]


async def bare_crowd(site: Site, streams: int, ticks: int, every: float) -> list[Figure]:
    """The machine's own limit: as many streams of two servers that do nothing else."""
    async with AsyncExitStack() as stack:
        listens = [
            await stack.enter_async_context(running_bare(site, size, ticks, every))
            for size in divided(streams, SERVERS)
        ]
        shares = shares_of(listens, streams)
        clients = await stack.enter_async_context(crowd(site, shares))
        await clients.until_ready()
        seen = await clients.seen()
    return spread(BARE, _seconds(seen.others))


async def crowd_held(
    site: Site, watchers: int, plan: Plan, most_ms: float | None = None
) -> list[Figure]:
    """One job, many watchers in many processes, half of them at each of two orchestrators."""
    async with AsyncExitStack() as stack:
        start = [running_orchestrator(site, "CROWD") for _ in range(SERVERS)]
        orchestrators = [await stack.enter_async_context(one) for one in start]
        before = _memory(orchestrators)
        request = pb.CreateJobRequest(source_url=plan.url, force=True)
        job = (await orchestrators[0].pipelines[0].CreateJob(request)).job
        addresses = [one.address for one in orchestrators]
        shares = shares_of(addresses, watchers, job_id=job.job_id)
        clients = await stack.enter_async_context(crowd(site, shares))
        await clients.until_ready()
        opened = _memory(orchestrators)
        idle = sum(one.cpu_seconds for one in orchestrators)
        async with running_stages(site):
            seen = await clients.seen()
        ended = _memory(orchestrators)
        worked = sum(one.cpu_seconds for one in orchestrators) - idle
        # The first was written before anybody watched.
        log = (await stored_sequences(orchestrators[0], job.job_id))[1:]
    events = seen.segments + seen.others
    return [
        Figure(
            "watchers over two orchestrators that got every event once, to the end",
            seen.logs[_named(log)],
            "",
            watchers,
        ),
        *spread("event to watcher over two orchestrators", _seconds(events), most_ms),
        *spread("segment to watcher over two orchestrators", _seconds(seen.segments)),
        Figure("… processor time an event and watcher", worked / events.total() * 1e6, "µs"),
        Figure("… memory a watcher", (max(opened, ended) - before) / watchers / 1000, "KB"),
    ]


async def stored_sequences(orchestrator: Orchestrator, job_id: str) -> list[int]:
    """The sequences of an event log."""
    watch = orchestrator.pipelines[0].WatchJob(pb.WatchJobRequest(job_id=job_id))
    return [update.sequence async for update in watch if update.sequence]


def _memory(orchestrators: Sequence[Orchestrator]) -> int:
    return sum(one.rss for one in orchestrators)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    gc.disable()
    _say(asyncio.run(hold(Share(**json.loads(sys.argv[1])), _say)).to_json())
