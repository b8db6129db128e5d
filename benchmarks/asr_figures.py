"""What was measured of the contestants: rows of medians, targets, a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.asr_contestants import BATCHED, OURS, SEQUENTIAL
from benchmarks.asr_cues import judge_captions
from benchmarks.asr_heard import Heard
from benchmarks.asr_recordings import Recording
from benchmarks.asr_words import Errors, count_errors
from benchmarks.figures import clock
from benchmarks.load_figures import MB, Figure

HEAD = (
    "recording",
    "way",
    "media s",
    "wall s",
    "x real time",
    "RTF",
    "first s",
    "WER %",
    "peak MB",
    "cues",
    "in rules %",
    "readable %",
)
SLOWER_PERCENT, TINY_SLOWER_PERCENT = 60.0, 85.0
"""Our time, of the fastest bare one's; a tiny model leaves less to save beside its fixed costs."""
WORSE_POINTS = 0.0
FIRST_SECONDS = 1.2
AT_ONCE_RATIO = 1.4
BASE_PEAK_MB = 750.0
LONGER_PERCENT = 105.0
DRIFT_MS = 50.0


@dataclass(frozen=True, slots=True)
class Row:
    """A contestant on one recording: medians of all its runs."""

    recording: str
    way: str
    media_seconds: float
    wall_seconds: float
    first_seconds: float | None
    errors: Errors
    peak_bytes: int
    cues: int
    within_rules: int
    """Cues that keep every rule but the reading speed."""
    readable: int
    """Cues there is time to read."""
    walls: tuple[float, ...]
    """Of each run."""

    @property
    def speed(self) -> float:
        """Media seconds a second."""
        return self.media_seconds / self.wall_seconds

    @classmethod
    def of(cls, recording: Recording, way: str, runs: Sequence[Heard]) -> "Row":
        """Combines runs; errors count over all runs, because a contestant may be random."""
        firsts = [run.first_seconds for run in runs if run.first_seconds is not None]
        errors = (count_errors(recording.reference, run.text, recording.language) for run in runs)
        verdict = judge_captions(runs[-1], recording.language, ours=way == OURS)
        return cls(
            recording=recording.name,
            way=way,
            media_seconds=recording.seconds,
            wall_seconds=median(run.wall_seconds for run in runs),
            first_seconds=median(firsts) if firsts else None,
            errors=Errors.total(errors),
            peak_bytes=max(run.peak_bytes for run in runs),
            cues=verdict.cues,
            within_rules=verdict.within_hard_rules,
            readable=verdict.within_reading_speed,
            walls=tuple(run.wall_seconds for run in runs),
        )


def sum_up(rows: Sequence[Row], name: str) -> list[Row]:
    """For each contestant, all its recordings as if they were one."""
    return [_sum([row for row in rows if row.way == way], name) for way in _ways(rows)]


def _ways(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.way for row in rows))


def _sum(rows: Sequence[Row], name: str) -> Row:
    firsts = [row.first_seconds for row in rows if row.first_seconds is not None]
    return Row(
        recording=name,
        way=rows[0].way,
        media_seconds=sum(row.media_seconds for row in rows),
        wall_seconds=sum(row.wall_seconds for row in rows),
        first_seconds=max(firsts, default=None),
        errors=Errors.total(row.errors for row in rows),
        peak_bytes=max(row.peak_bytes for row in rows),
        cues=sum(row.cues for row in rows),
        within_rules=sum(row.within_rules for row in rows),
        readable=sum(row.readable for row in rows),
        walls=tuple(map(sum, zip(*(row.walls for row in rows), strict=True))),
    )


def bare_of(rows: Iterable[Row]) -> list[Row]:
    """The rows we are judged by: bare faster-whisper, sequential and in batches."""
    return [row for row in rows if row.way == SEQUENTIAL or row.way.startswith(BATCHED)]


def fastest_bare(rows: Iterable[Row]) -> Row | None:
    """The fastest bare contestant."""
    return min(bare_of(rows), key=lambda row: row.wall_seconds, default=None)


def ours_of(rows: Iterable[Row]) -> Row | None:
    """The row of our transcriber."""
    return next((row for row in rows if row.way == OURS), None)


def against_bare(rows: Sequence[Row], model: str) -> list[Figure]:
    """Our figures against the best bare contestant on one recording; empty without both."""
    own, fastest = ours_of(rows), fastest_bare(rows)
    if own is None or fastest is None:
        return []
    best = min(row.errors.percent for row in bare_of(rows))
    slower = 100 * own.wall_seconds / fastest.wall_seconds
    worse = own.errors.percent - best
    time = f"{own.recording}: our time, of that of {fastest.way}, the fastest"
    words = f"{own.recording}: our WER, above the lowest compared"
    limit = TINY_SLOWER_PERCENT if model.startswith("tiny") else SLOWER_PERCENT
    return [
        Figure(time, slower, "%", limit, "less"),
        Figure(words, worse, "pts", WORSE_POINTS, "less"),
    ]


def first_segments(rows: Iterable[Row]) -> list[Figure]:
    """The longest wait for our first segment; empty without a row of ours."""
    waits = [row.first_seconds for row in rows if row.way == OURS and row.first_seconds is not None]
    name = "first segment, the slowest recording"
    return [Figure(name, max(waits), "s", FIRST_SECONDS, "less")] if waits else []


def peak_memory(rows: Iterable[Row], model: str) -> list[Figure]:
    """The most memory of ours, children included; empty without a row of ours."""
    peaks = [row.peak_bytes / MB for row in rows if row.way == OURS]
    target = BASE_PEAK_MB if model == "base" else None
    return [Figure("our peak memory", max(peaks), "MB", target, "less")] if peaks else []


def at_once(speeds: Mapping[str, float]) -> list[Figure]:
    """Several recordings at once, against the same ones after another on the fastest bare way."""
    bare = [Figure(f"in turn: {way}", speeds[way], "s/s") for way in speeds if way != OURS]
    if OURS not in speeds:
        return bare
    fastest = max((figure.value for figure in bare), default=None)
    target = None if fastest is None else AT_ONCE_RATIO * fastest
    return [*bare, Figure(f"at once: {OURS}", speeds[OURS], "s/s", target)]


def long_against_short(short: Heard, long: Heard, seconds: float) -> list[Figure]:
    """What length costs; named by the lengths really heard."""
    name = f"{clock(seconds)} in one stream"
    grown = 100 * long.peak_bytes / short.peak_bytes
    drift = 1000 * abs(long.ended_at - seconds)
    figures = [
        Figure(f"{name}: peak memory", long.peak_bytes / MB, "MB"),
        Figure(f"{name}: of that of {clock(short.ended_at)}", grown, "%", LONGER_PERCENT, "less"),
        Figure(f"{name}: its end, off the true length", drift, "ms", DRIFT_MS, "less"),
        Figure(f"{name}: speed", seconds / long.wall_seconds, "s/s"),
    ]
    if long.pieces:
        silent = 1000 * (seconds - long.pieces[-1].end)
        figures.append(Figure(f"{name}: left after the last segment", silent, "ms"))
    return figures


def table(rows: Sequence[Row]) -> str:
    """A line for each row, names to the left and numbers to the right."""
    return aligned([HEAD, *map(_cells, rows)], names=2)


def aligned(lines: Sequence[Sequence[str]], names: int) -> str:
    """Columns as wide as their widest cell; the first ones are names."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number < names else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.recording,
        row.way,
        f"{row.media_seconds:.1f}",
        f"{row.wall_seconds:.2f}",
        f"{row.speed:.1f}",
        f"{1 / row.speed:.3f}",
        "-" if row.first_seconds is None else f"{row.first_seconds:.2f}",
        f"{row.errors.percent:.2f}",
        f"{row.peak_bytes / MB:.0f}",
        str(row.cues),
        _percent(row.within_rules, row.cues),
        _percent(row.readable, row.cues),
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"
