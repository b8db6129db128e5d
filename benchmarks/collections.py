"""What one big collection costs: `python -m benchmarks.collections [--members 1000] …`.

Starts a real nats-server that syncs every write, null stages and an orchestrator, each a process
of its own. Runs as many single jobs as the collection will have members, then the collection with
one watcher, then again with many. Measures the orchestrator's memory, how long it takes until all
is settled, how often the record is written, and what watchers receive: that must grow with what
changes, not with members times changes. Exits with 1 if it does not, or if a watcher missed an end
or saw one twice.
"""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks.collections_watch import Gathered, Memory, gathered, single_jobs
from benchmarks.load_figures import Figure, table, to_json
from benchmarks.load_mesh import Site
from benchmarks.results import write_json
from mesh.addresses import free_ports
from tests.support.broker import running_broker

RESULTS = Path(__file__).parent / "results"
KB = 1000
MOST_MESSAGES = 2.0
"""Messages a watcher may get for each stored change; more than one because of live figures."""
MOST_MEMORY = 30.0
"""Megabytes an orchestrator may need more for members than for as many single jobs."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """How much of everything."""

    members: int
    in_flight: int
    watchers: int


async def measure_collections(args: Arguments) -> list[Figure]:
    """One after the other, on one broker; each with stores of its own."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-collections-") as name:
        folder = Path(name)
        async with running_broker(folder / "nats") as broker:
            site = Site(broker, folder, f"127.0.0.1:{free_ports(1)[0]}")
            seconds, memory = await single_jobs(site, args.members)
            click.echo(f"single jobs: {seconds:.1f} s", err=True)
            figures = [
                Figure(f"{args.members} single jobs: create to the last end", seconds, "s"),
                *memory.figures("single jobs"),
            ]
            for watchers in dict.fromkeys((1, args.watchers)):
                found = await gathered(site, args.members, args.in_flight, watchers)
                click.echo(f"{watchers} watching: {found.seconds:.1f} s", err=True)
                figures += _figures(found, memory)
            return figures


def _figures(found: Gathered, single: Memory) -> list[Figure]:
    watchers = len(found.received)
    whose = f"{watchers} watching"
    one = found.received[0]
    most = max(received.messages for received in found.received)
    wrong = sum(not received.is_right(found.members) for received in found.received)
    grown = (found.memory.after - found.memory.before) - (single.after - single.before)
    total = sum(received.bytes_ for received in found.received)
    return [
        Figure(f"{whose}: create to settled", found.seconds, "s"),
        *found.memory.figures(whose),
        Figure(f"{whose}: grown beyond single jobs", grown / 1e6, "MB", MOST_MEMORY, "less"),
        Figure(f"{whose}: saves of the record", found.saves, ""),
        Figure(f"{whose}: stored changes", found.changes, ""),
        Figure(f"{whose}: their size", found.change_bytes / KB, "KB"),
        Figure(f"{whose}: messages to one, at most", most, ""),
        Figure(f"{whose}: of one, live figures", one.kinds["progress"], ""),
        Figure(f"{whose}: messages a change", most / found.changes, "", MOST_MESSAGES, "less"),
        Figure(f"{whose}: if each change carried all members", found.members * found.changes, ""),
        Figure(f"{whose}: bytes to one", one.bytes_ / KB, "KB"),
        Figure(f"{whose}: bytes to all", total / KB, "KB"),
        Figure(f"{whose}: messages to one who comes late", found.late.messages, ""),
        Figure(f"{whose}: watchers that missed or doubled an end", wrong, "", 0, "less"),
    ]


def write_result(args: Arguments, figures: Sequence[Figure], folder: Path) -> Path:
    """Everything measured, in a file named after the moment."""
    return write_json("collections", {"asked": asdict(args), "figures": to_json(figures)}, folder)


@click.command(help=__doc__)
@click.option("--members", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option(
    "--in-flight",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Members under way at once; 0: the service's setting.",
)
@click.option("--watchers", type=click.IntRange(min=1), default=50, show_default=True)
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=RESULTS,
    help="Folder for the JSON.  [default: benchmarks/results]",
)
def main(members: int, in_flight: int, watchers: int, results: Path) -> None:
    """Measures, prints and judges."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    args = Arguments(members, in_flight, watchers)
    figures = asyncio.run(measure_collections(args))
    click.echo(table(figures))
    click.echo(f"wrote {write_result(args, figures, results)}", err=True)
    missed = [figure.name for figure in figures if not figure.met]
    if missed:
        raise click.ClickException(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
