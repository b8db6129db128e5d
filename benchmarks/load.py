"""What the orchestrator bears: `python -m benchmarks.load [--jobs 2000] [--watchers 1000] …`.

Starts a real nats-server that syncs every write, null stages and orchestrators, each a process of
its own, and calls them from this one; ten thousand watchers are in processes of their own, too.
Measures how many jobs are accepted and finished a second, how soon an event reaches every watcher
over gRPC and over HTTP, how fast queries are with many jobs stored, and what slow watchers cost.
Targets of delay and of accepting are ratios to what the bare broker, a bare gRPC server and our own
gRPC reach in the same run. Exits with 1 if one is missed.
"""

import asyncio
import gc
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

import click

from benchmarks.http import streams_held
from benchmarks.load_crowd import BARE as BARE_CROWD
from benchmarks.load_crowd import bare_crowd, crowd_held
from benchmarks.load_figures import Figure, share_of, table, to_json
from benchmarks.load_mesh import Site
from benchmarks.load_stages import Plan
from benchmarks.load_state import RAW_STORES, accepting, finishing, listing, publishing, seed
from benchmarks.load_watch import BARE, WATCHED, bare_sending, slow_watchers, watchers_held
from benchmarks.results import write_json
from cli.local.certs import make_certificates
from cli.local.mesh import NATS, tls_of_services
from mesh.addresses import free_ports
from mesh.tls import PLAIN
from tests.support.broker import running_broker

Command = TypeVar("Command", bound=Callable[..., object])

RESULTS = Path(__file__).parent / "results"
ACCEPTED_SHARE = 0.8
"""Least share of the bare broker's stores that accepting jobs reaches."""
WATCH_SHARE = 1.5
"""Most that an event's p99 delay to a watcher exceeds that of bare gRPC."""
HTTP_SHARE = 2.5
"""Most that an event's p99 delay over HTTP exceeds that over gRPC."""
FINISHED_PER_SECOND = 150
"""Least null-stage jobs that two orchestrators finish a second."""
BARE_TICKS = 50
"""Enough to see what the machine can do."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """How much of everything."""

    jobs: int
    callers: int
    finished: int
    watchers: int
    crowd: int
    crowd_segments: int
    crowd_every: float
    streams: int
    segments: int
    every: float
    stored: int
    calls: int
    slow: int
    slow_segments: int
    tls: bool = False


async def measure_load(args: Arguments) -> list[Figure]:
    """Everything, one after the other, on one broker; each with stores of its own."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-load-") as name:
        folder = Path(name)
        data_dir = folder / "nats"
        if args.stored:
            await seed(data_dir, args.stored)
        certs = folder / "certs" if args.tls else None
        if certs is not None:
            make_certificates(certs, (), days=1)
        tls = tls_of_services(certs, {}).get(NATS, PLAIN)
        async with running_broker(data_dir, tls=tls) as broker:
            stages = f"127.0.0.1:{free_ports(1)[0]}"
            return await _in_turn(args, Site(broker, folder, stages, certs))


async def _in_turn(args: Arguments, site: Site) -> list[Figure]:
    plan = Plan(segments=args.segments, every=args.every, text=60)
    ticks = min(args.segments, BARE_TICKS)
    crowd_plan = Plan(segments=args.crowd_segments, every=args.crowd_every, text=60)
    figures: list[Figure] = []

    def limit(name: str, share: float) -> float | None:
        return share_of(figures, name, share)

    steps: list[tuple[int, str, Callable[[], Awaitable[list[Figure]]]]] = [
        (args.jobs, "storing", lambda: publishing(site, args.jobs)),
        (
            args.jobs,
            "accepting",
            lambda: accepting(site, args.jobs, args.callers, limit(RAW_STORES, ACCEPTED_SHARE)),
        ),
        (
            args.finished,
            "finishing",
            lambda: finishing(
                site, args.finished, args.callers, FINISHED_PER_SECOND, limit(RAW_STORES, 1)
            ),
        ),
        (args.watchers, "sending", lambda: bare_sending(site, args.watchers, ticks, args.every)),
        (
            args.watchers,
            "watching",
            lambda: watchers_held(site, args.watchers, plan, limit(f"{BARE}, p99", WATCH_SHARE)),
        ),
        (
            args.crowd,
            "sending to a crowd",
            lambda: bare_crowd(site, args.crowd, args.crowd_segments, args.crowd_every),
        ),
        (
            args.crowd,
            "watching in a crowd",
            lambda: crowd_held(
                site, args.crowd, crowd_plan, limit(f"{BARE_CROWD}, p99", WATCH_SHARE)
            ),
        ),
        (
            args.streams,
            "streaming",
            lambda: streams_held(site, args.streams, plan, limit(f"{WATCHED}, p99", HTTP_SHARE)),
        ),
        (args.slow, "dozing", lambda: slow_watchers(site, args.slow, args.slow_segments)),
        (args.stored, "listing", lambda: listing(site, args.stored, args.calls)),
    ]
    for size, name, measure in steps:
        if size:
            began = monotonic()
            figures += await measure()
            click.echo(f"{name}: done in {monotonic() - began:.1f} s", err=True)
    return figures


def write_result(args: Arguments, figures: Sequence[Figure], folder: Path) -> Path:
    """Everything measured, in a file named after the moment."""
    return write_json("load", {"asked": asdict(args), "figures": to_json(figures)}, folder)


def _number(name: str, default: int, text: str) -> Callable[[Command], Command]:
    return click.option(
        name, type=click.IntRange(min=0), default=default, show_default=True, help=text
    )


@click.command(help=__doc__)
@_number("--jobs", 2000, "Jobs to accept; 0 leaves this out, as with all of these.")
@_number("--callers", 64, "Callers of CreateJob at once.")
@_number("--finished", 300, "Null-stage jobs to finish over two orchestrators.")
@_number("--watchers", 1000, "Watchers of one job.")
@_number("--crowd", 10_000, "Watchers of one job over two orchestrators, in several processes.")
@_number("--crowd-segments", 20, "Segments of the job they watch.")
@click.option("--crowd-every", default=3.0, show_default=True, help="Seconds between two of them.")
@_number("--streams", 1000, "Event streams of one job over HTTP.")
@_number("--segments", 360, "Segments of the watched job.")
@click.option("--every", default=0.2, show_default=True, help="Seconds between two of them.")
@_number("--stored", 100_000, "Jobs to store before listing them.")
@_number("--calls", 300, "Calls of each query.")
@_number("--slow", 1000, "Watchers that read nothing for a while.")
@_number("--slow-segments", 50, "Segments of 2 KB they miss meanwhile.")
@click.option(
    "--tls",
    is_flag=True,
    help="Every wire with TLS, between services both ways; without the crowd and the streams.",
)
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=RESULTS,
    help="Folder for the JSON.  [default: benchmarks/results]",
)
def main(results: Path, tls: bool, **sizes: float) -> None:
    """Measures, prints and judges."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if tls:
        sizes |= {"crowd": 0, "streams": 0}
    args = Arguments(tls=tls, **sizes)  # type: ignore[arg-type] # named alike
    gc.disable()  # our own pauses would count as the orchestrator's
    figures = asyncio.run(measure_load(args))
    click.echo(table(figures))
    click.echo(f"wrote {write_result(args, figures, results)}", err=True)
    missed = [figure.name for figure in figures if not figure.met]
    if missed:
        raise click.ClickException(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
