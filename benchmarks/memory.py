"""How much memory a long recording takes: `python -m benchmarks.memory [--hours 3]`.

Starts the whole mesh, gives it a synthetic recording from a local web server, follows the job and
notes the resident memory of every service whenever another ten minutes have been transcribed. Exits
with 1 if the orchestrator's memory at the end is not within 30 MB of that at ten minutes.
"""

import asyncio
import os
import sys
import tempfile
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import click
import psutil

from benchmarks.figures import MB, Marks, Run, Sample, clock, step_for, table, to_json, verdict
from benchmarks.processes import measure
from benchmarks.recording import make_recording, served
from benchmarks.results import write_json
from cli.channel import UNARY_SECONDS, call, connected
from cli.local.mesh import EmbeddedMesh, embedded_mesh
from mesh.watching import follow
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

ROOT = Path(__file__).parent
SPEECH = ROOT.parent / "tests" / "data" / "sample.ogg"
RESULTS = ROOT / "results"
NAME = "recording.ogg"
PEAK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Arguments:
    """What was asked for."""

    seconds: float
    every: float
    limit_seconds: float
    speech: Path


class Progress:
    """Says on stderr what goes on."""

    def line(self, text: str) -> None:
        """Something worth remembering."""
        sys.stderr.write(f"{text}\n")

    def status(self, text: str) -> None:
        """Where the mesh is on its way up."""
        if text:
            self.line(text)


async def measure_memory(args: Arguments, progress: Progress) -> Run:
    """Runs one recording through a mesh of its own; raises if the job does not succeed."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-benchmark-") as name:
        folder = Path(name)
        path = folder / NAME
        progress.line(f"making {clock(args.seconds)} of audio")
        await asyncio.to_thread(
            make_recording, args.speech, path, seconds=args.seconds, every=args.every
        )
        run = Run(args.seconds, path.stat().st_size)
        with served(folder) as address:
            async with embedded_mesh(progress) as mesh:
                progress.line(f"{run.recording_bytes / MB:.1f} MB, served at {address}")
                await _run_job(mesh, f"{address}/{NAME}", run, progress)
    return run


async def _run_job(mesh: EmbeddedMesh, url: str, run: Run, progress: Progress) -> None:
    began, marks, root = monotonic(), Marks(step_for(run.recording_seconds)), psutil.Process()

    async def sample(media_seconds: float) -> None:
        services = await asyncio.to_thread(measure, root)
        run.note_peaks(services)
        run.samples.append(Sample(media_seconds, monotonic() - began, services))
        own = services["orchestrator"].own / MB if "orchestrator" in services else 0
        progress.line(
            f"{clock(media_seconds)} of media after {clock(monotonic() - began)}: "
            f"orchestrator {own:.1f} MB"
        )

    peaks = asyncio.create_task(_keep_peaks(run, root))
    try:
        async with connected(mesh.address, token=mesh.token) as server:
            request = pb.CreateJobRequest(source_url=url)
            created = await call(server.pipeline.CreateJob, request, UNARY_SECONDS)
            async with aclosing(follow(server.pipeline, created.job.job_id)) as updates:
                async for update in updates:
                    if marks.passed_by(media_seconds := heard(update)):
                        await sample(media_seconds)
                    if update.event.HasField("job_finished"):
                        _check_end(update.event.job_finished.job)
                        await sample(run.recording_seconds)
    finally:
        peaks.cancel()


async def _keep_peaks(run: Run, root: psutil.Process) -> None:
    while True:
        run.note_peaks(await asyncio.to_thread(measure, root))
        await asyncio.sleep(PEAK_SECONDS)


def heard(update: pb.WatchJobResponse) -> float:
    """Media seconds the transcription has passed, as far as this update says; else 0."""
    for status in update.progress.stages:
        if status.stage == job_pb.STAGE_TRANSCRIPTION:
            return float(status.progress.media.done.ToTimedelta().total_seconds())
    return 0.0


def _check_end(job: job_pb.Job) -> None:
    if job.state != job_pb.JOB_STATE_SUCCEEDED:
        state = job_pb.JobState.Name(job.state)
        raise click.ClickException(f"{state}: {job.failure.message} ({job.failure.reason})")


def write_result(run: Run, folder: Path) -> Path:
    """Everything measured, in a file named after the moment."""
    return write_json("memory", to_json(run), folder)


async def _bounded(args: Arguments) -> Run:
    async with asyncio.timeout(args.limit_seconds):
        return await measure_memory(args, Progress())


@click.command(help=__doc__)
@click.option("--hours", type=click.FloatRange(min=0.01), default=3.0, show_default=True)
@click.option(
    "--every",
    type=click.FloatRange(min=30),
    default=120.0,
    show_default=True,
    help="Seconds from one stretch of speech to the next; the rest is silence.",
)
@click.option(
    "--limit-minutes",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Give up after this long.",
)
@click.option(
    "--speech",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=SPEECH,
    help="A short spoken recording.  [default: tests/data/sample.ogg]",
)
def main(hours: float, every: float, limit_minutes: float, speech: Path) -> None:
    """Measures, prints and judges."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    args = Arguments(hours * 3600, every, limit_minutes * 60, speech)
    try:
        run = asyncio.run(_bounded(args))
    except TimeoutError:
        raise click.ClickException(f"not done after {limit_minutes:g} minutes") from None
    click.echo(f"Resident memory in MB; {clock(hours * 3600)}, {run.recording_bytes / MB:.1f} MB")
    click.echo(table(run))
    click.echo("* the most a service had together with its children")
    click.echo(f"wrote {write_result(run, RESULTS)}", err=True)
    fault = run.fault()
    if fault:
        raise click.ClickException(fault)
    click.echo(verdict(run))


if __name__ == "__main__":
    main()
