"""Caption quality over a corpus, beside bare faster-whisper: `python -m benchmarks.quality FOLDER`.

Our transcriber, fed over its gRPC stream, and bare faster-whisper, sequential and batched, hear
every recording of a folder, and mutations of it, with the same model, beam and compute type. Prints
tables, writes everything as JSON, and exits with 1 if a target is missed: in every class of
languages and lengths ours has no more errors than the better bare way; ours has no loops, and no
text without speech. benchmarks/quality_corpus.py says what a corpus is.
"""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import grpc

from benchmarks.asr import default_threads
from benchmarks.asr_contestants import BATCHED, OURS, SEQUENTIAL, Terms
from benchmarks.asr_parts import ENGLISH, say, with_languages
from benchmarks.asr_recordings import Recording
from benchmarks.asr_words import BY_CHARACTER
from benchmarks.load_figures import Figure, to_json
from benchmarks.load_figures import table as targets_table
from benchmarks.quality_cache import Cache
from benchmarks.quality_corpus import NO_SPEECH, Clip, decode, read_corpus, select
from benchmarks.quality_figures import (
    MUTATED,
    Bin,
    Judged,
    by_class,
    compare,
    count_all,
    reliability,
    targets,
)
from benchmarks.quality_hearing import hear_all
from benchmarks.quality_mutations import MUTATIONS, PLAIN, plan
from benchmarks.quality_tables import (
    class_table,
    comparison_lines,
    counts_table,
    mutation_table,
    reliability_table,
)
from benchmarks.results import write_json
from mesh.tasks import map_concurrently

WAYS = (OURS, SEQUENTIAL, f"{BATCHED}8")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The options of the command."""

    folder: Path
    model: str
    beam: int
    compute_type: str
    mutations: tuple[str, ...]
    language: str
    limit: int
    jobs: int
    cache: Path | None

    @property
    def terms(self) -> Terms:
        """Settings all contestants share; a thread for each lane."""
        return Terms(self.model, self.beam, self.compute_type, self.jobs)

    @property
    def is_english_only(self) -> bool:
        """Whether the model knows no other language."""
        return self.model.endswith(".en")


async def measure(args: Arguments) -> list[Judged]:
    """Hears every clip and every mutation in every way."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-quality-") as name:
        work = Path(name)
        clips = await _clips(args, work)
        if not clips:
            raise click.UsageError(f"{args.folder} has no recording that fits the options")
        makers = plan(clips, args.mutations)
        say(f"{len(clips)} clips, {len(makers)} variants with the plain ones, {args.jobs} lanes")
        return await hear_all(makers, WAYS, args.terms, Cache(args.cache), work)


async def _clips(args: Arguments, work: Path) -> list[Clip]:
    try:
        entries = read_corpus(args.folder)
        if args.is_english_only:
            fits = ("", ENGLISH, NO_SPEECH)
            entries = [entry for entry in entries if entry.language in fits]
        if all(entry.language for entry in entries):
            # Without decoding what is left out.
            entries = select(entries, args.language, args.limit)
        clips = await map_concurrently(
            lambda entry: asyncio.to_thread(decode, entry), entries, at_once=args.jobs
        )
    except (ValueError, KeyError, subprocess.CalledProcessError) as error:
        raise click.UsageError(str(error)) from error
    clips = await _with_languages(clips, args, work)
    if args.is_english_only:
        clips = [clip for clip in clips if clip.language in (ENGLISH, NO_SPEECH)]
    return select(clips, args.language, args.limit)


async def _with_languages(clips: Sequence[Clip], args: Arguments, work: Path) -> list[Clip]:
    unknown = [clip for clip in clips if not clip.language]
    recordings = []
    for number, clip in enumerate(unknown):
        path = work / f"unknown-{number}.s16le"
        path.write_bytes(clip.samples.tobytes())
        recordings.append(Recording.of(path, clip.name, clip.reference or ""))
    if not recordings:
        return list(clips)
    known, _ = await with_languages(recordings, args.terms, work)
    heard = {recording.name: recording.language for recording in known}
    return [replace(clip, language=clip.language or heard[clip.name]) for clip in clips]


def report(judged: Sequence[Judged]) -> tuple[str, list[Figure]]:
    """The tables, and the figures with their targets."""
    rows, counts = by_class(judged), count_all(judged)
    figures = targets(rows, counts)
    parts = [] if rows else ["No variant has speech and a reference: word errors do not count."]
    for scope in (PLAIN, MUTATED):
        if any(key[0] == scope for key in rows):
            parts.append(f"Word errors, {scope}\n{class_table(rows, scope, WAYS)}")
    if any(one.language in BY_CHARACTER for one in judged):
        parts.append("* errors of characters: no spaces between words. Classes sum both kinds.")
    if any(key[0] == MUTATED for key in rows):
        parts.append(f"Word errors in %, by mutation\n{mutation_table(rows, WAYS)}")
    for what, bins in _reliabilities(judged).items():
        if bins:
            title = f"Confidence of our {what} against the words said"
            parts.append(f"{title}\n{reliability_table(bins)}")
    parts.append(f"Other faults\n{counts_table(counts)}")
    parts.append(f"Ours against the better bare way\n{comparison_lines(compare(judged))}")
    parts.append(f"Targets\n{targets_table(figures)}")
    return "\n\n".join(parts), figures


def _reliabilities(judged: Sequence[Judged]) -> dict[str, list[Bin]]:
    own = [one for one in judged if one.way == OURS]
    return {
        "segments": reliability(pair for one in own for pair in one.confidences),
        "words": reliability(pair for one in own for pair in one.word_confidences),
    }


def write_result(
    args: Arguments, judged: Sequence[Judged], figures: Sequence[Figure], folder: Path
) -> Path:
    """Writes everything that was measured, with all texts."""
    rows = [
        {**asdict(row), "wer_percent": {way: one.percent for way, one in row.errors.items()}}
        for row in by_class(judged).values()
    ]
    measured = {
        "asked": asdict(args),
        "rows": rows,
        "counts": [asdict(one) for one in count_all(judged)],
        "figures": to_json(figures),
        "reliability": {
            what: [asdict(one) for one in bins] for what, bins in _reliabilities(judged).items()
        },
        "compared": [asdict(one) for one in compare(judged)],
        "heard": [asdict(one) for one in judged],
    }
    return write_json("quality", measured, folder)


def _mutations(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    if value in ("none", "all"):
        return MUTATIONS if value == "all" else ()
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    for name in names:
        if name not in MUTATIONS:
            raise click.BadParameter(f"{name!r} is not none, all or some of {', '.join(MUTATIONS)}")
    return names


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--model", default="base", show_default=True)
@click.option("--beam", type=click.IntRange(1, 10), default=5, show_default=True)
@click.option("--compute-type", default="int8", show_default=True)
@click.option(
    "--mutations",
    default="all",
    show_default=True,
    callback=_mutations,
    help=f"none, all, or names separated by commas: {', '.join(MUTATIONS)}.",
)
@click.option("--language", default="", help="Only clips of this language; none: without speech.")
@click.option("--limit", type=click.IntRange(min=1), default=None, help="So many clips, spread.")
@click.option("--jobs", type=click.IntRange(min=1), default=default_threads, show_default="cores")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where answers of bare faster-whisper are stored; ours are never stored.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
)
def main(out: Path, limit: int | None, **options: Any) -> None:
    """Measures, prints the tables and fails if a target is missed."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # SIGTERM and SIGINT both end the children too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    args = Arguments(limit=limit or 0, **options)
    try:
        judged = asyncio.run(measure(args))
    except grpc.aio.AioRpcError as error:
        raise click.ClickException(f"{error.code().name}: {error.details()}") from error
    text, figures = report(judged)
    click.echo(f"{args.model}, beam {args.beam}, {args.compute_type}\n\n{text}")
    click.echo(f"wrote {write_result(args, judged, figures, out)}", err=True)
    missed = [figure.name for figure in figures if not figure.met]
    if missed:
        raise click.ClickException(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
