"""How fast and how well we hear, beside bare faster-whisper: `python -m benchmarks.asr FOLDER`.

FOLDER holds recordings, each with its reference in a .txt of the same name. Our transcriber, fed
over its gRPC stream, and bare faster-whisper, sequential and batched, hear the same decoded samples
in turn, each in a process of its own, with the same model, beam, compute type and threads. Prints a
table, writes everything as JSON and the progress as PNG, and exits with 1 if a target is missed.
"""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import grpc

from benchmarks import asr_parts as parts
from benchmarks.asr_contestants import (
    BATCHED,
    COMMAND,
    CPP,
    CPP_Q8,
    OURS,
    SEQUENTIAL,
    Terms,
    contestants,
)
from benchmarks.asr_figures import (
    Row,
    against_bare,
    first_segments,
    peak_memory,
    sum_up,
    table,
)
from benchmarks.asr_parts import ENGLISH, Outcome, say
from benchmarks.asr_peers import PEERS
from benchmarks.asr_plot import plot_progress
from benchmarks.asr_recordings import Recording, decode_folder, join
from benchmarks.load_figures import Figure, to_json
from benchmarks.load_figures import table as targets
from benchmarks.results import write_json

NAMED = (OURS, SEQUENTIAL, *PEERS, COMMAND, CPP, CPP_Q8)
EACH, JOINED, FOUR, LONG = "each", "joined", "four", "long"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The options of the command."""

    folder: Path
    model: str
    beam: int
    compute_type: str
    threads: int
    ways: tuple[str, ...]
    parts: tuple[str, ...]
    runs: int
    minutes: float
    hours: float
    seed: int

    @property
    def terms(self) -> Terms:
        """The settings all contestants share."""
        return Terms(self.model, self.beam, self.compute_type, self.threads)


@dataclass(slots=True)
class Result:
    """All measurements of one run."""

    model: str
    each: list[Outcome] = field(default_factory=list)
    joined: list[Outcome] = field(default_factory=list)
    further: list[Figure] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """Rows of the table."""
        each = [row for outcome in self.each for row in outcome.rows]
        joined = [row for outcome in self.joined for row in outcome.rows]
        return [*each, *(sum_up(each, "all of them") if each else ()), *joined]

    @property
    def figures(self) -> list[Figure]:
        """Figures with their targets."""
        joined = [row for outcome in self.joined for row in outcome.rows]
        return [
            *against_bare(joined, self.model),
            *first_segments(self.rows),
            *peak_memory(self.rows, self.model),
            *self.further,
        ]


async def measure(args: Arguments) -> Result:
    """Measures every requested part."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-asr-") as name:
        work = Path(name)
        decoded = await asyncio.to_thread(_decode, args.folder, work)
        known, multilingual = await parts.with_languages(decoded, args.terms, work)
        english = [recording for recording in known if recording.language == ENGLISH]
        say(f"{len(known)} recordings, English: {', '.join(one.name for one in english) or 'none'}")
        if not english:
            raise click.UsageError(f"{args.folder} has no English recording to join")
        return await _in_turn(args, known if multilingual else english, english, work)


def _decode(folder: Path, work: Path) -> list[Recording]:
    try:
        decoded = decode_folder(folder, work)
    except (ValueError, subprocess.CalledProcessError) as error:
        raise click.UsageError(str(error)) from error
    if not decoded:
        raise click.UsageError(f"{folder} has no recording with a .txt beside it")
    return decoded


async def _in_turn(
    args: Arguments, heard: Sequence[Recording], english: Sequence[Recording], work: Path
) -> Result:
    result, seconds = Result(args.model), args.minutes * 60
    joined = join(english, work / f"{args.minutes:g} minutes.s16le", seconds, args.seed)
    if {EACH, JOINED, FOUR}.intersection(args.parts):
        async with contestants(args.ways, args.terms, work) as ready:
            await parts.warm_up(ready, min(english, key=lambda one: one.seconds))
            if EACH in args.parts:
                result.each = await parts.compare(heard, ready, args.runs)
            if JOINED in args.parts:
                result.joined = await parts.compare([joined], ready, args.runs)
            if FOUR in args.parts:
                shares = parts.make_shares(english, seconds, args.seed, work)
                result.further += await parts.four_at_once(shares, ready, args.runs)
    if LONG in args.parts:
        result.further += await parts.long_stream(english, joined, args.hours, args.terms, work)
    return result


def write_result(args: Arguments, result: Result, folder: Path) -> Path:
    """Writes JSON and, for the joined recording, a plot; file names carry the time."""
    measured = {
        "asked": asdict(args),
        "rows": [
            {**asdict(row), "speed": row.speed, "wer_percent": row.errors.percent}
            for row in result.rows
        ],
        "figures": to_json(result.figures),
        "heard": [_heard_json(outcome) for outcome in (*result.each, *result.joined)],
    }
    path = write_json("asr", measured, folder)
    for outcome in result.joined:
        last = {way: runs[-1] for way, runs in outcome.runs.items()}
        plot_progress(last, outcome.recording.seconds, path.with_suffix(".png"))
    return path


def _heard_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "recording": outcome.recording.name,
        "language": outcome.recording.language,
        "reference": outcome.recording.reference,
        "runs": {way: [asdict(run) for run in runs] for way, runs in outcome.runs.items()},
    }


def _check_way(_: click.Context, __: click.Parameter, ways: tuple[str, ...]) -> tuple[str, ...]:
    for way in ways:
        size = way.removeprefix(BATCHED)
        is_batched = size != way and size.isdecimal() and size != "0"
        if way not in NAMED and not is_batched:
            raise click.BadParameter(f"{way!r} is not {', '.join(NAMED)} or {BATCHED}<size>")
    return ways


def default_threads() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--model", default="base", show_default=True)
@click.option("--beam", type=click.IntRange(1, 10), default=5, show_default=True)
@click.option("--compute-type", default="int8", show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=default_threads, show_default="all")
@click.option(
    "--way",
    "ways",
    multiple=True,
    callback=_check_way,
    default=(OURS, SEQUENTIAL, f"{BATCHED}4", f"{BATCHED}8"),
    show_default=True,
    help="Contestant to compare; may be repeated.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice([EACH, JOINED, FOUR, LONG]),
    default=(EACH, JOINED),
    show_default=True,
    help="Each recording; all joined to a long one; four streams at once; hours in one stream.",
)
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--minutes", type=click.FloatRange(min=0.1), default=10.0, show_default=True)
@click.option("--hours", type=click.FloatRange(min=0.01), default=3.0, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the order when joining.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
)
def main(out: Path, **options: Any) -> None:
    """Measures, prints the table and fails if a target is missed."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # SIGTERM and SIGINT both end the children too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    args = Arguments(**options)
    try:
        result = asyncio.run(measure(args))
    except grpc.aio.AioRpcError as error:
        raise click.ClickException(f"{error.code().name}: {error.details()}") from error
    click.echo(
        f"{args.model}, beam {args.beam}, {args.compute_type}, {args.threads} threads, "
        f"medians of {args.runs}"
    )
    if result.rows:
        click.echo(table(result.rows))
    if result.figures:
        click.echo(targets(result.figures))
    click.echo(f"wrote {write_result(args, result, out)}", err=True)
    missed = [figure.name for figure in result.figures if not figure.met]
    if missed:
        raise click.ClickException(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
