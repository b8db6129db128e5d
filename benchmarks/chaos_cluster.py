"""Whether a cluster keeps its promises: `python -m benchmarks.chaos_cluster [--phase leaders] …`.

Three brokers with three copies of everything, two orchestrators and two of each stage, each a
process of its own, take jobs while brokers, network and processes fail, phase by phase. Each phase
begins with empty stores. Exits with 1 if an invariant of any phase is not 0.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from time import monotonic

import click

from benchmarks.chaos_sources import CUTS, make_copies, make_cut
from benchmarks.cluster_brokers import network_for, running_brokers
from benchmarks.cluster_clocks import find_library
from benchmarks.cluster_disks import can_mount, small_disks
from benchmarks.cluster_load import Load, Order, connected, null_order
from benchmarks.cluster_mesh import MIB, Kind, running_mesh
from benchmarks.cluster_phases import PHASES, Phase, Trial
from benchmarks.cluster_probe import Probe, probing
from benchmarks.cluster_report import (
    MIN_BROKER_KILLS,
    MIN_PARTITIONS,
    Result,
    described,
    table,
    to_json,
    totals,
)
from benchmarks.recording import served
from benchmarks.results import write_json
from mesh.tasks import stop

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
STANDSTILL_SECONDS = 90.0
CONTRACT = "protos/released.binpb"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The options of the command."""

    jobs: int
    real_jobs: int
    seed: int
    scale: float
    limit_seconds: float
    network: str = "auto"
    old: str = ""


def say(text: str) -> None:
    """Prints progress."""
    sys.stderr.write(f"{text}\n")


async def run_phase(name: str, args: Arguments, phase: Phase | None = None) -> Result:
    """Runs one phase on a cluster and a mesh of its own."""
    phase = phase or PHASES[name]
    network = network_for(phase.need, args.network)
    result, began = Result(name, network), monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ytcaption-chaos-")))
        old = stack.enter_context(_sources_of(args.old)) if phase.old else None
        make: Callable[[int], Order] = null_order
        least = round(args.jobs * phase.share)
        if phase.real:
            make, least = stack.enter_context(recordings(folder, args.real_jobs)), args.real_jobs
        disks = stack.enter_context(small_disks(folder)) if phase.small_disks else {}
        kind = Kind(
            prefix=name.upper(),
            real=phase.real,
            concurrency=2 if phase.real else 8,
            code=old,
            work_dir=disks.get("work"),
            more={"STORAGE_BYTES": str(64 * MIB)} if disks else {},
            faketime=find_library() if phase.clocks else None,
        )
        async with (
            running_brokers(folder / "brokers", network, args.seed) as brokers,
            running_mesh(brokers.url, folder, say, kind) as mesh,
            connected([one.address for one in mesh.of("orchestrator")]) as stubs,
            probing(brokers, kind.prefix) as probe,
        ):
            say(f"phase {name}: all up after {monotonic() - began:.0f} s, network {network}")
            load = Load(stubs, f"{name}-{args.seed}")
            load.is_old = lambda number: mesh.of("orchestrator")[number].code is not None
            rng = random.Random(f"{args.seed} {name}")  # noqa: S311 # to be repeatable, not secret
            trial = Trial(brokers, mesh, load, rng, args.scale, say, disks)
            result.tally = trial.tally
            await _carry_out(phase, trial, args, (least, make), result)
            await _count(load, probe, result)
            result.exits = mesh.exits()
    result.wall_seconds = monotonic() - began
    return result


async def _carry_out(
    phase: Phase,
    trial: Trial,
    args: Arguments,
    jobs: tuple[int, Callable[[int], Order]],
    result: Result,
) -> None:
    least, make = jobs
    loading = asyncio.create_task(trial.load.run(least, phase.pause, make))
    try:
        async with asyncio.timeout(args.limit_seconds):
            await phase.run(trial)
            trial.load.enough.set()
            await _drained(trial.load, loading)
    except TimeoutError as error:
        result.broken = f"not over in time {error}".strip()
    finally:
        for victim in trial.victims():
            if victim.process is not None and victim.process.returncode is None:
                victim.thaw()
        trial.brokers.heal()
        await stop(loading)


async def _drained(load: Load, loading: "asyncio.Task[None]") -> None:
    """Returns when all jobs have ended; TimeoutError if none does any more."""
    while not loading.done():
        before = load.progress()
        await asyncio.wait([loading], timeout=STANDSTILL_SECONDS)
        if not loading.done() and load.progress() == before:
            raise TimeoutError(f"no job moved for {STANDSTILL_SECONDS:.0f} s")
    loading.result()


async def _count(load: Load, probe: Probe, result: Result) -> None:
    until = load.submitted_at or monotonic()
    result.longest_wait = load.quorum.longest_wait(until)
    result.bare_wait = load.quorum.longest_wait(until, probe.answers)
    result.noted = load.noted
    result.unaccepted = sum(not order.job_id for order in load.orders)
    result.judged = await load.judged()
    if not result.unaccepted:
        result.surplus = await load.surplus()


@contextmanager
def recordings(folder: Path, count: int) -> Iterator[Callable[[int], Order]]:
    """Jobs for short spoken recordings, no two of the same bytes."""
    files = folder / "files"
    files.mkdir()
    bases = [make_cut(cut, folder) for cut in CUTS if "portuguese" not in cut.name]
    copies = make_copies(bases, files, 0, count)
    with served(files) as site:
        yield lambda number: Order(number, f"{site}/{copies[number].name}")


@contextmanager
def _sources_of(revision: str) -> Iterator[Path]:
    """The sources of another version."""
    archive = _git("archive", revision)
    with tempfile.TemporaryDirectory(prefix="ytcaption-old-") as name:
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(name, filter="data")
        yield Path(name)


def _git(*arguments: str) -> bytes:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout


def last_release() -> str:
    """The newest tag; without one, the commit of the released contract; "" without git."""
    for question in (("describe", "--tags", "--abbrev=0"), ("log", "-1", "--format=%h", CONTRACT)):
        try:
            if found := _git(*question).decode().strip():
                return found
        except (OSError, subprocess.CalledProcessError):
            continue
    return ""


async def run_phases(names: Sequence[str], args: Arguments) -> list[Result]:
    """Runs the phases one after the other."""
    results = []
    for name in names:
        if PHASES[name].old and not args.old:
            say(f"phase {name} left out: no released version is known; name one with --old")
            continue
        if PHASES[name].small_disks and not can_mount():
            say(f"phase {name} left out: this process may not mount a file system (try as root)")
            continue
        if PHASES[name].clocks and find_library() is None:
            say(f"phase {name} left out: libfaketime is not installed, or Python does not obey it")
            continue
        results.append(await run_phase(name, args))
        click.echo(described(results[-1]))
    return results


@click.command(help=__doc__)
@click.option(
    "--phase", "names", type=click.Choice(list(PHASES)), multiple=True, help="Only these."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Null jobs without a fault; each phase with faults has a tenth of them or more.",
)
@click.option("--real-jobs", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--seed", type=int, default=None, help="The same seed forces the same faults.")
@click.option(
    "--scale",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    help="Factor of all times, such as the 90 s for which two of three brokers are down.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=1200.0,
    show_default=True,
    help="Give up a phase after this long; what has not ended by then counts.",
)
@click.option(
    "--network",
    type=click.Choice(["auto", "links"]),
    default="auto",
    show_default=True,
    help="auto: network namespaces where this machine allows them, else TCP links.",
)
@click.option("--old", default="", help="Revision to upgrade from.  [default: the last release]")
def main(  # noqa: PLR0913 # options
    names: tuple[str, ...],
    jobs: int,
    real_jobs: int,
    seed: int | None,
    scale: float,
    seconds: float,
    network: str,
    old: str,
) -> None:
    """Runs, prints the counts and fails if an invariant is broken."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # SIGTERM and SIGINT both end brokers and services too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = random.randrange(1_000_000) if seed is None else seed  # noqa: S311 # printed below
    args = Arguments(jobs, real_jobs, seed, scale, seconds, network, old or last_release())
    say(f"seed {seed}")
    began = monotonic()
    results = asyncio.run(run_phases(names or list(PHASES), args))
    kills, cuts = totals(results)
    click.echo(table(results))
    click.echo(f"{kills} broker kills, {cuts} partitions, {monotonic() - began:.0f} s, seed {seed}")
    measured = {"asked": asdict(args), "phases": [to_json(result) for result in results]}
    click.echo(f"wrote {write_json('chaos-cluster', measured, RESULTS)}", err=True)
    faults = [f"{result.name}: {result.fault()}" for result in results if result.fault()]
    if not names and (kills < MIN_BROKER_KILLS or cuts < MIN_PARTITIONS):
        faults.append(f"{kills} broker kills and {cuts} partitions are too few")
    if faults:
        raise click.ClickException("; ".join(faults))
    click.echo("nothing lost, nothing twice, nothing missed, nothing different")


if __name__ == "__main__":
    main()
