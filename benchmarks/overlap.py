"""What overlapping the stages saves: `python -m benchmarks.overlap FOLDER [--kbps 128] …`.

Joins the English recordings of a folder to one of ten minutes, puts it on a local web server that
sends one megabyte a second, and has captions made of it in two ways, in turn: by a running mesh,
from the address to SRT; and step by step, yt-dlp to a file, ffmpeg to a file, bare faster-whisper
in its fastest way to SRT. Both have the same model, loaded before the clock runs. Exits with 1 if
a target is missed.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import click
import psutil

from benchmarks.asr import default_threads
from benchmarks.asr_contestants import Contestant, Terms, contestants
from benchmarks.asr_parts import ENGLISH, say, warm_up, with_languages
from benchmarks.asr_recordings import RATE, Recording, decode_folder, join
from benchmarks.load_figures import Figure, table
from benchmarks.processes import SERVICES, processor_seconds
from benchmarks.recording import run_ffmpeg, served
from cli.channel import UNARY_SECONDS, Server, connected
from cli.local.certs import make_certificates
from cli.local.mesh import embedded_plan, phases, tls_of_services
from cli.local.supervisor import supervised
from mesh.tls import Tls
from mesh.watching import follow
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

RATIO, FIRST_SECONDS = 0.65, 1.2
"""What the mesh must reach."""
NAME = "recording.webm"


@dataclass(frozen=True, slots=True)
class Arguments:
    """What was asked for."""

    folder: Path
    minutes: float
    kbps: int
    bytes_per_second: int
    runs: int
    terms: Terms
    ways: Sequence[str]
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Through:
    """How long it took the mesh."""

    first: float
    """Seconds to the first caption."""
    whole: float
    computed: dict[str, float]
    """Processor seconds of each service, its children included."""


@dataclass(frozen=True, slots=True)
class Steps:
    """How long each step took when one followed the other."""

    download: float
    decode: float
    hear: dict[str, float]

    @property
    def total(self) -> float:
        """With the way of listening that was fastest."""
        return self.download + self.decode + min(self.hear.values())


class _Quiet:
    """The mesh comes up without a word."""

    def line(self, text: str) -> None:
        """Ignored."""

    def status(self, text: str) -> None:
        """Ignored."""


async def measure(args: Arguments) -> list[Figure]:
    """Both ways, in turn; medians."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-overlap-") as name:
        work = Path(name)
        site = work / "site"
        site.mkdir()
        joined, shortest = await _recordings(args, work)
        media = ("-c:a", "libopus", "-b:a", f"{args.kbps}k", "-ac", "2", site / NAME)
        run_ffmpeg("-f", "s16le", "-ar", str(RATE), "-ac", "1", "-i", joined.path, *media)
        say(f"{joined.seconds:.0f} s, {(site / NAME).stat().st_size / 1e6:.1f} MB")
        with served(site, bytes_per_second=args.bytes_per_second) as address:
            async with (
                _running_mesh(work, tls=args.tls) as mesh,
                contestants(args.ways, args.terms, work) as bare,
            ):
                await warm_up(bare, shortest)
                return await _in_turn(args, mesh, bare, f"{address}/{NAME}", work)


@asynccontextmanager
async def _running_mesh(work: Path, *, tls: bool) -> AsyncIterator[Server]:
    """An embedded mesh, as it is or with TLS on every wire."""
    certs = work / "certs" if tls else None
    if certs is not None:
        make_certificates(certs, (), days=1)
    plan = replace(embedded_plan(work), tls=tls_of_services(certs, {}))
    files = (str(certs / name) for name in ("client.crt", "client.key", "ca.crt")) if certs else ()
    async with (
        supervised(phases(plan), work, grace_seconds=plan.grace_seconds, display=_Quiet()),
        connected(plan.listen["orchestrator"], Tls(*files)) as mesh,
    ):
        yield mesh


async def _recordings(args: Arguments, work: Path) -> tuple[Recording, Recording]:
    decoded = await asyncio.to_thread(decode_folder, args.folder, work)
    known, _ = await with_languages(decoded, args.terms, work)
    english = [recording for recording in known if recording.language == ENGLISH]
    if not english:
        raise click.UsageError(f"{args.folder} has no English recording to join")
    joined = join(english, work / "joined.s16le", args.minutes * 60)
    return joined, min(english, key=lambda one: one.seconds)


async def _in_turn(
    args: Arguments, mesh: Server, bare: Sequence[Contestant], url: str, work: Path
) -> list[Figure]:
    ours: list[Through] = []
    steps: list[Steps] = []
    for number in range(args.runs):
        ours.append(await _with_mesh(mesh, url))
        say(f"run {number + 1}: the mesh took {ours[-1].whole:.1f} s")
        steps.append(await _step_by_step(bare, url, work))
        say(f"run {number + 1}: one step after the other took {steps[-1].total:.1f} s")
    return _figures(ours, steps, args.ways)


def _figures(ours: Sequence[Through], steps: Sequence[Steps], ways: Sequence[str]) -> list[Figure]:
    whole = statistics.median(one.whole for one in ours)
    first = statistics.median(one.first for one in ours)
    total = statistics.median(one.total for one in steps)
    return [
        Figure("the mesh: address to SRT", whole, "s"),
        Figure("the mesh: first caption", first, "s", FIRST_SECONDS, "less"),
        *(
            Figure(f"the mesh: {name} computed", statistics.median(times), "s")
            for name in SERVICES
            if (times := [one.computed[name] for one in ours if name in one.computed])
        ),
        Figure("step by step: yt-dlp", statistics.median(one.download for one in steps), "s"),
        Figure("step by step: ffmpeg", statistics.median(one.decode for one in steps), "s"),
        *(
            Figure(f"step by step: {way}", statistics.median(one.hear[way] for one in steps), "s")
            for way in ways
        ),
        Figure("step by step: all, with the fastest", total, "s"),
        Figure("the mesh takes, of that", 100 * whole / total, "%", 100 * RATIO, "less"),
    ]


async def _with_mesh(mesh: Server, url: str) -> Through:
    """From the address to the SRT."""
    before = processor_seconds(psutil.Process())
    began, first = monotonic(), 0.0
    # The sequential steps do not remove noise either.
    options = job_pb.JobOptions(remove_noise=False)
    request = pb.CreateJobRequest(source_url=url, options=options, force=True)
    job = (await mesh.pipeline.CreateJob(request, timeout=UNARY_SECONDS)).job
    async with aclosing(follow(mesh.pipeline, job.job_id)) as updates:
        async for update in updates:
            if update.event.HasField("segment_settled"):
                first = first or monotonic() - began
            if update.event.HasField("job_finished"):
                job = update.event.job_finished.job
    if job.state != job_pb.JOB_STATE_SUCCEEDED:
        raise click.ClickException(f"{job.failure.message} ({job.failure.reason})")
    wanted = pb.GetCaptionsRequest(job_id=job.job_id)
    await mesh.pipeline.GetCaptions(wanted, timeout=UNARY_SECONDS)
    whole = monotonic() - began
    after = processor_seconds(psutil.Process())
    return Through(first, whole, {name: after[name] - before.get(name, 0) for name in after})


async def _step_by_step(bare: Sequence[Contestant], url: str, work: Path) -> Steps:
    media, samples = work / "fetched.webm", work / "fetched.s16le"
    media.unlink(missing_ok=True)
    began = monotonic()
    command = [sys.executable, "-m", "yt_dlp", "--quiet", "--output", str(media), url]
    await asyncio.to_thread(subprocess.run, command, check=True, timeout=600)
    fetched = monotonic()
    raw = ("-vn", "-ac", "1", "-ar", str(RATE), "-f", "s16le", samples)
    await asyncio.to_thread(run_ffmpeg, "-i", media, *raw)
    decoded = monotonic()
    recording = Recording.of(samples, "fetched", "")
    hear = {one.name: (await one.hear(recording)).wall_seconds for one in bare}
    return Steps(fetched - began, decoded - fetched, hear)


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--minutes", type=click.FloatRange(min=0.1), default=10.0, show_default=True)
@click.option("--kbps", type=click.IntRange(16, 512), default=128, show_default=True)
@click.option(
    "--bytes-per-second", type=click.IntRange(min=1), default=1_000_000, show_default=True
)
@click.option("--tls", is_flag=True, help="The mesh with TLS both ways, to compare with without.")
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--way", "ways", multiple=True, default=("batched-4", "batched-8"), show_default=True)
def main(folder: Path, ways: tuple[str, ...], tls: bool, **sizes: float) -> None:
    """Measures, prints and judges."""
    terms = Terms(model="base", beam=5, compute_type="int8", threads=default_threads())
    args = Arguments(folder, terms=terms, ways=ways, tls=tls, **sizes)  # type: ignore[arg-type] # named alike
    figures = asyncio.run(measure(args))
    click.echo(table(figures))
    missed = [figure.name for figure in figures if not figure.met]
    if missed:
        raise click.ClickException(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
