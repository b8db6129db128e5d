"""What the gateway bears: `python -m benchmarks.http [--streams 200] [--segments 40] …`.

Starts a real nats-server, null stages, an orchestrator and a gateway, each a process of its own,
and opens event streams from this one. Measures the gateway's memory before and after, and how long
an event takes from the moment the orchestrator wrote it to a client over HTTP; beside it the same
over gRPC, without the gateway. Exits with 1 if a stream lost or doubled an event.
"""

import asyncio
import re
import sys
import tempfile
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from time import time
from typing import cast

import click
import httpx2

from benchmarks.children import child, last_words
from benchmarks.load_figures import MB, Figure, spread, table, to_json
from benchmarks.load_mesh import Orchestrator, Site, running_orchestrator, running_stages
from benchmarks.load_stages import Plan
from benchmarks.load_watch import watchers_held
from benchmarks.processes import Observed
from benchmarks.results import write_json
from mesh.addresses import free_ports, split
from tests.support.broker import running_broker
from ytcaption.v1 import pipeline_service_pb2 as pb

RESULTS = Path(__file__).parent / "results"
START_SECONDS = 60.0
STORY_SECONDS = 240.0
ID = re.compile(rb"^id: (\d+)\n", re.MULTILINE)


@dataclass(slots=True)
class Gateway(Observed):
    """A running gateway."""

    base: str


@dataclass(slots=True)
class Heard:
    """The events one client received."""

    arrivals: dict[int, float] = field(default_factory=dict)
    """When each stored event came, by its id."""
    doubled: int = 0
    figures: int = 0
    finished: bool = False


@asynccontextmanager
async def running_gateway(site: Site, orchestrator: str) -> AsyncIterator[Gateway]:
    """A gateway until the block ends."""
    port = free_ports(1)[0]
    environment = {
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "GATEWAY_METRICS_LISTEN": "",
        "GATEWAY_ORCHESTRATOR": orchestrator,
        "GATEWAY_RATE_PER_SECOND": "0",
        "GATEWAY_GRACE_SECONDS": "0",
        "GATEWAY_LOG_LEVEL": "WARNING",
    }
    log = site.folder / "gateway.log"
    service = [sys.executable, "-P", "-m", "gateway"]
    async with child(service, environment, log) as process:
        base = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=base) as client, asyncio.timeout(START_SECONDS):
            while not await _answers(client):
                if process.returncode is not None:
                    raise RuntimeError(f"the gateway did not start: {last_words(log)}")
                await asyncio.sleep(0.05)
        yield Gateway(process.pid, base)


async def _answers(client: httpx2.AsyncClient) -> bool:
    try:
        return (await client.get("/health")).status_code in (200, 503)
    except httpx2.TransportError:
        return False


class Reader(asyncio.Protocol):
    """Reads a stream as it comes: parsing it is not what is measured."""

    def __init__(self, request: bytes, begun: asyncio.Semaphore) -> None:
        self.ended = asyncio.Event()
        self._request = request
        self._begun = begun
        self._data = bytearray()
        self._pieces: list[tuple[int, float]] = []
        """How much had come at which time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks."""
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        """Notes when it came."""
        if not self._pieces:
            self._begun.release()
        self._data += data
        self._pieces.append((len(self._data), time()))

    def connection_lost(self, error: Exception | None) -> None:
        """Is over."""
        self.ended.set()

    def heard(self) -> Heard:
        """What has come."""
        heard = Heard(
            figures=self._data.count(b"event: progress\n"),
            finished=b"event: finished\n" in self._data,
        )
        for found in ID.finditer(self._data):
            event_id = int(found[1])
            heard.doubled += event_id in heard.arrivals
            piece = bisect_left(self._pieces, found.end(), key=itemgetter(0))
            heard.arrivals[event_id] = self._pieces[piece][1]
        return heard


async def open_stream(base: str, job_id: str, begun: asyncio.Semaphore) -> Reader:
    """Asks for the events of a job."""
    host, port = split(base.removeprefix("http://"))
    request = (
        f"GET /jobs/{job_id}/events HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    )
    make = partial(Reader, request.encode(), begun)
    _, reader = await asyncio.get_running_loop().create_connection(make, host, port)
    return reader


async def stored_times(orchestrator: Orchestrator, job_id: str) -> dict[int, float]:
    """When each event of the event log was written, by its place."""
    watch = orchestrator.pipelines[0].WatchJob(pb.WatchJobRequest(job_id=job_id))
    return {
        update.sequence: update.event.timestamp.ToNanoseconds() / 1e9
        async for update in watch
        if update.sequence
    }


async def streams_held(
    site: Site, streams: int, plan: Plan, most_ms: float | None = None
) -> list[Figure]:
    """One job, many streams on one gateway."""
    async with (
        running_orchestrator(site, "HTTP") as orchestrator,
        running_gateway(site, orchestrator.address) as gateway,
    ):
        async with httpx2.AsyncClient(base_url=gateway.base) as client:
            order = {"youtube_url": plan.url, "force": True}
            job_id = (await client.post("/pipeline", json=order)).json()["job_id"]
        before, began = gateway.rss, asyncio.Semaphore(0)
        readers = [await open_stream(gateway.base, job_id, began) for _ in range(streams)]
        async with asyncio.timeout(START_SECONDS):
            for _ in range(streams):
                await began.acquire()
        opened, idle = gateway.rss, gateway.cpu_seconds
        async with running_stages(site), asyncio.timeout(STORY_SECONDS):
            await asyncio.gather(*(reader.ended.wait() for reader in readers))
        ended, worked = gateway.rss, gateway.cpu_seconds - idle
        heard = [reader.heard() for reader in readers]
        event_log = await stored_times(orchestrator, job_id)
    return [*_delays(heard, event_log, most_ms), *_costs(heard, (before, opened, ended), worked)]


def _delays(heard: list[Heard], event_log: dict[int, float], most_ms: float | None) -> list[Figure]:
    whole = sum(
        one.finished and not one.doubled and one.arrivals.keys() == event_log.keys()
        for one in heard
    )
    # The first was written before anybody listened; the last brings the whole text.
    *others, last = sorted(event_log)[1:]
    return [
        Figure("streams held to the end, with every event once", whole, "", len(heard)),
        *spread("event to client over HTTP", _late(heard, event_log, others), most_ms),
        *spread("the end, with the text, to client", _late(heard, event_log, [last])),
        Figure("events a stream", len(event_log), ""),
        Figure("live figures a stream", sum(one.figures for one in heard) / len(heard), ""),
    ]


def _late(heard: list[Heard], event_log: dict[int, float], places: list[int]) -> list[float]:
    return [
        one.arrivals[place] - event_log[place]
        for one in heard
        for place in places
        if place in one.arrivals
    ]


def _costs(heard: list[Heard], memory: tuple[int, int, int], worked: float) -> list[Figure]:
    before, opened, ended = memory
    sent = sum(len(one.arrivals) + one.figures for one in heard)
    return [
        Figure("gateway's processor time an event", worked / sent * 1e6, "µs"),
        Figure("gateway's memory before", before / MB, "MB"),
        Figure("gateway's memory with all streams open", opened / MB, "MB"),
        Figure("gateway's memory after the last event", ended / MB, "MB"),
        Figure("memory a stream", (max(opened, ended) - before) / len(heard) / 1000, "KB"),
    ]


async def measure(streams: int, plan: Plan) -> list[Figure]:
    """Over HTTP, then over gRPC alone."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-http-") as name:
        folder = Path(name)
        async with running_broker(folder / "nats") as broker:
            site = Site(broker, folder, f"127.0.0.1:{free_ports(1)[0]}")
            over_http = await streams_held(site, streams, plan)
            alone = await watchers_held(site, streams, plan)
    beside = ("event to watcher, p50", "event to watcher, p99")
    return [
        *over_http,
        *(
            Figure(f"beside it, over gRPC: {one.name}", one.value, one.unit)
            for one in alone
            if one.name in beside
        ),
    ]


@click.command()
@click.option("--streams", default=200, show_default=True, help="Event streams open at once.")
@click.option("--segments", default=40, show_default=True, help="Segments of the job.")
@click.option("--every", default=0.25, show_default=True, help="Seconds between two of them.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="For the JSON.")
def main(streams: int, segments: int, every: float, results: Path) -> None:
    """Measures the gateway with many open event streams."""
    plan = Plan(segments=segments, every=every)
    figures = asyncio.run(measure(streams, plan))
    click.echo(table(figures))
    asked = {"streams": streams, **asdict(plan)}
    path = write_json("http", {"asked": asked, "figures": to_json(figures)}, results)
    click.echo(f"written to {path}", err=True)
    sys.exit(0 if all(figure.met for figure in figures) else 1)


if __name__ == "__main__":
    main()
