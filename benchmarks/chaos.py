"""Whether a job is lost while everything dies: `python -m benchmarks.chaos [--jobs 50]`.

Starts the whole mesh under its supervisor, hears every source once undisturbed, then submits jobs
by address and by upload while SIGKILL hits every kind of process at seeded random moments. Exits
with 1 if a job was lost or had two results, if a transcript differs from the undisturbed one, or if
a watcher saw an event twice or never.
"""

import asyncio
import itertools
import os
import random
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import click
import grpc

from benchmarks.chaos_caller import Caller, Seen
from benchmarks.chaos_mesh import Killer, UpMesh, blows, up_mesh
from benchmarks.chaos_report import Outcome, Run, judge, table, to_json
from benchmarks.chaos_sources import CUTS, make_copy, make_cut
from benchmarks.recording import served
from benchmarks.results import write_json
from cli.channel import open_channel
from mesh.tasks import stop
from mesh.watching import TERMINAL
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub

RESULTS = Path(__file__).parent / "results"
LEAD = 6
"""Jobs that are under way or wait while the next kill is prepared."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for."""

    jobs: int
    kills: int
    seed: int
    limit_seconds: float
    pause: float
    sources: int = len(CUTS)


@dataclass(slots=True)
class Order:
    """One job to be done, and how far it is."""

    number: int
    source: str
    file: Path
    by_upload: bool
    job_id: str = ""
    seen: Seen = field(default_factory=Seen)
    ended: bool = False


def say(text: str) -> None:
    """Progress, for people."""
    sys.stderr.write(f"{text}\n")


async def wreak(wish: Wish) -> Run:
    """One run on a mesh of its own."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-chaos-") as name:
        folder = Path(name)
        (folder / "files").mkdir()
        bases = [await asyncio.to_thread(make_cut, cut, folder) for cut in CUTS[: wish.sources]]
        say("starting the mesh")
        async with up_mesh(folder / "data") as mesh, open_channel(mesh.server) as channel:
            with served(folder / "files") as site:
                chaos = Chaos(wish, mesh, Caller(PipelineServiceStub(channel)), site)
                await chaos.hear_undisturbed(bases, folder / "files")
                return await chaos.run(bases, folder / "files")


class Chaos:
    """Jobs on one side, kills on the other."""

    def __init__(self, wish: Wish, mesh: UpMesh, caller: Caller, site: str) -> None:
        self._wish = wish
        self._killer = Killer(mesh, say)
        self._caller = caller
        self._site = site
        self._references: dict[str, dict[str, Any]] = {}
        self._orders: list[Order] = []

    async def hear_undisturbed(self, bases: list[Path], folder: Path) -> None:
        """The transcripts everything else is compared with."""
        for number, base in enumerate(bases, 90_000):
            file = await asyncio.to_thread(make_copy, base, folder, number)
            job = await self._caller.submit_file(file, f"reference-{number}")
            await self._caller.watch(job.job_id, Seen())
            self._references[base.stem] = await self._caller.transcript(job.job_id)
            say(f"undisturbed: {base.stem}: {self._references[base.stem]['text'][:60]}")

    async def run(self, bases: list[Path], folder: Path) -> Run:
        """Ends when every job has, or the time is up."""
        wish, began = self._wish, monotonic()
        rng = random.Random(wish.seed)  # noqa: S311 # to be repeatable, not secret
        for number, base in zip(range(wish.jobs), itertools.cycle(bases), strict=False):
            file = await asyncio.to_thread(make_copy, base, folder, number)
            self._orders.append(Order(number, base.stem, file, rng.random() < 0.5))
        killing = asyncio.create_task(
            self._killer.run(blows(wish.kills, wish.pause, wish.seed), self._all_ended)
        )
        working = [asyncio.create_task(self._try(order)) for order in self._orders]
        with suppress(TimeoutError):
            async with asyncio.timeout(wish.limit_seconds):
                await asyncio.gather(killing, *working)
        await stop(killing, *working)
        return await self._count(monotonic() - began)

    def _all_ended(self) -> bool:
        return all(order.ended for order in self._orders)

    async def _try(self, order: Order) -> None:
        try:
            await self._see_through(order)
        except grpc.aio.AioRpcError as error:  # counted at the end, by what became of the job
            say(f"job {order.number}: {error.code().name}: {error.details()}")
        finally:
            order.ended = True

    async def _see_through(self, order: Order) -> None:
        await self._killer.until(blows_before(order.number, self._wish))
        word = f"chaos-{self._wish.seed}-{order.number}"
        if order.by_upload:
            job = await self._caller.submit_file(order.file, word)
        else:
            job = await self._caller.submit_url(f"{self._site}/{order.file.name}", word)
        order.job_id = job.job_id
        await self._caller.watch(job.job_id, order.seen)
        left = sum(not other.ended for other in self._orders) - 1
        say(f"job {order.number} ({order.source}) ended, {left} to go")

    async def _count(self, wall_seconds: float) -> Run:
        accepted = [order for order in self._orders if order.job_id]
        run = Run(self._wish.seed, self._wish.jobs)
        run.outcomes = [await self._judge(order) for order in accepted]
        run.kills = dict(self._killer.kills)
        run.not_accepted = len(self._orders) - len(accepted)
        run.surplus = await self._caller.count() - len(self._references) - len(accepted)
        run.wall_seconds = wall_seconds
        return run

    async def _judge(self, order: Order) -> Outcome:
        job = await self._caller.job(order.job_id)
        if job is None or job.state not in TERMINAL:
            return judge(order.job_id, order.source, job, [], order.seen, differs=False)
        story = await self._caller.story(order.job_id)
        found = await self._caller.transcript(order.job_id)
        differs = found != self._references[order.source]
        if differs:
            say(f"{order.job_id} differs: {found} is not {self._references[order.source]}")
        return judge(order.job_id, order.source, job, story, order.seen, differs=differs)


def blows_before(number: int, wish: Wish) -> float:
    """How many kills a job waits for: the last for all, so that there is work until the end."""
    lead = min(LEAD, wish.jobs - 1)
    return wish.kills * max(0, number - lead + 1) / max(1, wish.jobs - lead)


def write_result(run: Run, folder: Path) -> Path:
    """Everything counted, in a file named after the moment."""
    return write_json("chaos", to_json(run), folder)


@click.command(help=__doc__)
@click.option("--jobs", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--kills", type=click.IntRange(min=0), default=60, show_default=True)
@click.option("--seed", type=int, default=None, help="The same seed kills in the same order.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=1800.0,
    show_default=True,
    help="Give up after this long; what has not ended by then counts as lost.",
)
@click.option(
    "--pause",
    type=click.FloatRange(min=0.2),
    default=4.0,
    show_default=True,
    help="Seconds between two kills, on average.",
)
def main(jobs: int, kills: int, seed: int | None, seconds: float, pause: float) -> None:
    """Disturbs, counts and judges."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Told to stop in either way, it takes its mesh with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = random.randrange(1_000_000) if seed is None else seed  # noqa: S311 # printed below
    say(f"seed {seed}")
    run = asyncio.run(wreak(Wish(jobs, kills, seed, seconds, pause)))
    click.echo(f"{jobs} jobs, {kills} kills, seed {seed}")
    click.echo(table(run))
    click.echo(f"wrote {write_result(run, RESULTS)}", err=True)
    if fault := run.fault():
        raise click.ClickException(fault)
    click.echo("nothing lost, nothing twice, nothing different")


if __name__ == "__main__":
    main()
