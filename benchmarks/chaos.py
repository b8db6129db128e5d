"""Whether a job is lost while everything dies: `python -m benchmarks.chaos [--jobs 30]`.

Starts the whole mesh under its supervisor, hears every source once undisturbed, then submits jobs
by address and by upload, a collection, and one with collectors and executors, while SIGKILL hits
every kind of process, third-party collectors and executors included, at seeded random moments.
Exits with 1 if a job, a member, a document or a result was lost, was there or counted twice, if a
transcript differs from the undisturbed one, if an aggregate says something else than the subtasks,
or if a watcher saw an event twice or never.
"""

import asyncio
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
from benchmarks.chaos_collection import Gathering, prepared
from benchmarks.chaos_gathered import weigh
from benchmarks.chaos_mesh import Killer, UpMesh, Victims, planned_kills, up_mesh
from benchmarks.chaos_report import Outcome, Run, judge, table, to_json
from benchmarks.chaos_sources import CUTS, cut_of, make_copies, make_copy, make_cut
from benchmarks.chaos_strangers import PROGRAMS, MeshAndStrangers
from benchmarks.chaos_subtasks import remarks, weigh_tasks
from benchmarks.chaos_tasks import TaskGathering, prepared_tasks
from benchmarks.processes import SERVICES
from benchmarks.recording import served
from benchmarks.results import write_json
from cli.channel import open_channel
from mesh.tasks import stop
from mesh.watching import TERMINAL
from ytcaption.v1 import job_pb2
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub

RESULTS = Path(__file__).parent / "results"
LEAD = 6
"""Jobs that are under way or wait while the next kill is prepared."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The options of the command."""

    jobs: int
    kills: int
    seed: int
    limit_seconds: float
    pause: float
    members: int = 0
    sources: int = len(CUTS)
    recordings: int = 0
    """Of the collection with collectors and executors; 0: there is none, nor are they killed."""
    deadline_seconds: float = 150

    @property
    def kinds(self) -> tuple[str, ...]:
        """Processes that are killed."""
        return (*SERVICES, *PROGRAMS) if self.recordings else SERVICES


@dataclass(slots=True)
class Order:
    """One job of the run and its progress."""

    number: int
    source: str
    file: Path
    by_upload: bool
    job_id: str = ""
    seen: Seen = field(default_factory=Seen)
    ended: bool = False


def say(text: str) -> None:
    """Prints progress."""
    sys.stderr.write(f"{text}\n")


async def run_chaos(args: Arguments) -> Run:
    """Runs once on a mesh of its own."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-chaos-") as name:
        folder = Path(name)
        (folder / "files").mkdir()
        bases = [await asyncio.to_thread(make_cut, cut, folder) for cut in CUTS[: args.sources]]
        say("starting the mesh")
        async with up_mesh(folder / "data") as mesh, open_channel(mesh.server) as channel:
            with served(folder / "files") as site:
                chaos = Chaos(args, mesh, Caller(PipelineServiceStub(channel)), site)
                await chaos.hear_undisturbed(bases, folder / "files")
                collections = CollectionServiceStub(channel)
                if args.members:
                    files = make_copies(bases, folder / "files", 50_000, args.members)
                    chaos.gathering = prepared(collections, chaos.caller, site, files)
                if not args.recordings:
                    return await chaos.run(bases, folder / "files")
                files = make_copies(bases, folder / "files", 70_000, args.recordings)
                async with prepared_tasks(
                    *(mesh, channel, chaos.caller),
                    site=site,
                    files=files,
                    folder=folder,
                    deadline_seconds=args.deadline_seconds,
                ) as (tasks, strangers):
                    chaos.add_tasks(tasks, MeshAndStrangers(mesh, strangers))
                    return await chaos.run(bases, folder / "files")


class Chaos:
    """Submits jobs while the killer kills processes."""

    def __init__(self, args: Arguments, mesh: UpMesh, caller: Caller, site: str) -> None:
        self._args = args
        self._killer = Killer(mesh, say)
        self.caller = caller
        self._site = site
        self._references: dict[tuple[str, bool], dict[str, Any]] = {}
        """By cut and whether it was uploaded: only a short upload is heard as a whole."""
        self._orders: list[Order] = []
        self.gathering: Gathering | None = None
        self.tasks: TaskGathering | None = None

    def add_tasks(self, tasks: TaskGathering, victims: Victims) -> None:
        """A collection with collectors and executors, and everything that is killed then."""
        self.tasks, self._killer.victims = tasks, victims

    async def hear_undisturbed(self, bases: list[Path], folder: Path) -> None:
        """The transcripts everything else is compared with."""
        both = [(base, by_upload) for base in bases for by_upload in (True, False)]
        for number, (base, by_upload) in enumerate(both, 90_000):
            file = await asyncio.to_thread(make_copy, base, folder, number)
            job = await self._submit(file, f"reference-{number}", by_upload=by_upload)
            await self.caller.watch(job.job_id, Seen())
            transcript = await self.caller.transcript(job.job_id)
            self._references[base.stem, by_upload] = transcript
            say(f"undisturbed: {base.stem}: {transcript['text'][:60]}")

    async def _submit(self, file: Path, word: str, *, by_upload: bool) -> job_pb2.Job:
        if by_upload:
            return await self.caller.submit_file(file, word)
        return await self.caller.submit_url(f"{self._site}/{file.name}", word)

    async def run(self, bases: list[Path], folder: Path) -> Run:
        """Returns when every job has ended or the time is up."""
        args, began = self._args, monotonic()
        rng = random.Random(args.seed)  # noqa: S311 # to be repeatable, not secret
        files = await asyncio.to_thread(make_copies, bases, folder, 0, args.jobs)
        for number, file in enumerate(files):
            self._orders.append(Order(number, cut_of(file.name), file, rng.random() < 0.5))
        killing = asyncio.create_task(
            self._killer.run(
                planned_kills(args.kills, args.pause, args.seed, args.kinds), self._all_ended
            )
        )
        working = [asyncio.create_task(self._try(order)) for order in self._orders]
        for name, one in self._gatherings.items():
            working.append(asyncio.create_task(self._gather(name, one)))
        with suppress(TimeoutError):
            async with asyncio.timeout(args.limit_seconds):
                await asyncio.gather(killing, *working)
        await stop(killing, *working)
        return await self._count(monotonic() - began)

    @property
    def _gatherings(self) -> dict[str, Gathering]:
        found = {"collection": self.gathering, "tasks": self.tasks and self.tasks.gathering}
        return {name: one for name, one in found.items() if one}

    def _all_ended(self) -> bool:
        gathered = all(one.ended for one in self._gatherings.values())
        return gathered and all(order.ended for order in self._orders)

    async def _gather(self, name: str, gathering: Gathering) -> None:
        try:
            await gathering.see_through(f"chaos-{self._args.seed}-{name}")
            say(f"{name}: settled")
        except grpc.aio.AioRpcError as error:  # counted at the end, as with jobs
            say(f"{name}: {error.code().name}: {error.details()}")
        finally:
            gathering.kills, gathering.ended = self._killer.kills.total(), True

    async def _try(self, order: Order) -> None:
        try:
            await self._see_through(order)
        except grpc.aio.AioRpcError as error:  # counted at the end, by what became of the job
            say(f"job {order.number}: {error.code().name}: {error.details()}")
        finally:
            order.ended = True

    async def _see_through(self, order: Order) -> None:
        await self._killer.until(blows_before(order.number, self._args))
        word = f"chaos-{self._args.seed}-{order.number}"
        job = await self._submit(order.file, word, by_upload=order.by_upload)
        order.job_id = job.job_id
        await self.caller.watch(job.job_id, order.seen)
        left = sum(not other.ended for other in self._orders) - 1
        say(f"job {order.number} ({order.source}) ended, {left} to go")

    async def _count(self, wall_seconds: float) -> Run:
        accepted = [order for order in self._orders if order.job_id]
        run = Run(self._args.seed, self._args.jobs)
        run.outcomes = [await self._judge(order) for order in accepted]
        run.kills = dict(self._killer.kills)
        run.not_accepted = len(self._orders) - len(accepted)
        run.surplus = await self.caller.count() - len(self._references) - len(accepted)
        if self.gathering:
            evidence = await self.gathering.evidence(self._differs)
            run.collection = weigh(evidence, self.gathering.kills)
            run.surplus -= sum(bool(member.job_id) for member in evidence.members)
        if self.tasks:
            found = await self.tasks.evidence(self._differs)
            run.tasks = weigh_tasks(found, self.tasks.gathering.kills)
            for line in remarks(found):
                say(line)
            run.surplus -= sum(bool(member.job_id) for member in found.members)
        run.wall_seconds = wall_seconds
        return run

    def _differs(self, address: str, transcript: dict[str, Any]) -> bool:
        return transcript != self._references[cut_of(address.rpartition("/")[2]), False]

    async def _judge(self, order: Order) -> Outcome:
        job = await self.caller.job(order.job_id)
        if job is None or job.state not in TERMINAL:
            return judge(order.job_id, order.source, job, [], order.seen, differs=False)
        event_log = await self.caller.event_log(order.job_id)
        found = await self.caller.transcript(order.job_id)
        expected = self._references[order.source, order.by_upload]
        differs = found != expected
        if differs:
            say(f"{order.job_id} differs: {found} is not {expected}")
        return judge(order.job_id, order.source, job, event_log, order.seen, differs=differs)


def blows_before(number: int, args: Arguments) -> float:
    """How many kills a job waits for: the last for all, so that there is work until the end."""
    lead = min(LEAD, args.jobs - 1)
    return args.kills * max(0, number - lead + 1) / max(1, args.jobs - lead)


def write_result(run: Run, folder: Path) -> Path:
    """Writes all counts; the file name carries the time."""
    return write_json("chaos", to_json(run), folder)


@click.command(help=__doc__)
@click.option("--jobs", type=click.IntRange(min=1), default=30, show_default=True)
@click.option(
    "--members",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Of a collection beside them; 0: none.",
)
@click.option(
    "--recordings",
    type=click.IntRange(min=0),
    default=6,
    show_default=True,
    help="Of a collection with collectors and executors beside them; 0: none.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=10),
    default=150.0,
    show_default=True,
    help="Seconds until that collection's time is up.",
)
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
def main(  # noqa: PLR0913 # options
    jobs: int,
    members: int,
    recordings: int,
    deadline: float,
    kills: int,
    seed: int | None,
    seconds: float,
    pause: float,
) -> None:
    """Runs, prints the counts and fails if an invariant is broken."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # SIGTERM and SIGINT both end the mesh too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = random.randrange(1_000_000) if seed is None else seed  # noqa: S311 # printed below
    say(f"seed {seed}")
    args = Arguments(
        *(jobs, kills, seed, seconds, pause, members),
        recordings=recordings,
        deadline_seconds=deadline,
    )
    run = asyncio.run(run_chaos(args))
    click.echo(f"{jobs} jobs, {members} members of a collection, {kills} kills, seed {seed}")
    click.echo(table(run))
    click.echo(f"wrote {write_result(run, RESULTS)}", err=True)
    if fault := run.fault():
        raise click.ClickException(fault)
    click.echo("nothing lost, nothing twice, nothing different")


if __name__ == "__main__":
    main()
