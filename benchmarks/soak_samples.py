"""Samples of every process over hours, and whether its memory or files grew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

MB = 1_000_000
WARM_UP = 0.25
"""The share of the samples before which nothing is concluded."""
MIN_SAMPLES = 5
MIN_SECONDS = 900.0
"""Of a line: in less time everything grows, since caches fill."""
CERTAIN = 0.5
"""Share of the variance a line must explain before it is called growth."""
MIN_GROWTH = {"memory": 25.0 * MB, "files": 20.0, "threads": 8.0}
GROWTH_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process has at a moment."""

    at: float
    """Seconds since the beginning."""
    pid: int
    memory: int
    """Resident bytes, with all children."""
    files: int
    threads: int


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through the samples of one figure after the warm-up."""

    seconds: float
    first: float
    last: float
    """What the line says for the first and the last sample."""
    explained: float

    @property
    def growth(self) -> float:
        """From the first sample to the last."""
        return self.last - self.first

    def grew(self, least: float) -> bool:
        """Whether this is more than noise."""
        enough = max(least, GROWTH_SHARE * max(self.first, 0))
        long = self.seconds >= MIN_SECONDS
        return long and self.growth > enough and self.explained > CERTAIN


def sample(pid: int, at: float) -> Sample | None:
    """A process and all below it; None if it has ended."""
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
        memory, files, threads = 0, 0, 0
        for process in family:
            memory += int(process.memory_info().rss)
            files += int(process.num_fds())
            threads += int(process.num_threads())
    except psutil.NoSuchProcess:
        return None
    return Sample(at, pid, memory, files, threads)


def longest_life(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of the process that was there most often: a restart begins anew."""
    by_pid: dict[int, list[Sample]] = {}
    for one in samples:
        by_pid.setdefault(one.pid, []).append(one)
    return max(by_pid.values(), key=len, default=[])


def trend(samples: Sequence[Sample], figure: str) -> Trend | None:
    """A least-squares line after the warm-up; None if there are too few samples."""
    kept = samples[int(len(samples) * WARM_UP) :]
    if len(kept) < MIN_SAMPLES:
        return None
    times = [one.at for one in kept]
    values = [float(getattr(one, figure)) for one in kept]
    middle, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((time - middle) ** 2 for time in times)
    slope = sum((t - middle) * (v - mean) for t, v in zip(times, values, strict=True)) / spread
    total = sum((value - mean) ** 2 for value in values)
    explained = slope**2 * spread / total if total else 0.0
    first, last = (mean + slope * (at - middle) for at in (times[0], times[-1]))
    return Trend(times[-1] - times[0], first, last, explained)


def grown(samples: Mapping[str, Sequence[Sample]]) -> list[str]:
    """Every process and figure that grew, in words; nothing of a short run."""
    found = []
    for name, each in samples.items():
        for figure, least in MIN_GROWTH.items():
            line = trend(longest_life(each), figure)
            if line is not None and line.grew(least):
                unit = MB if figure == "memory" else 1
                found.append(
                    f"{figure} of {name}: {line.first / unit:.1f} to {line.last / unit:.1f}"
                )
    return found


def table(samples: Mapping[str, Sequence[Sample]]) -> str:
    """A line for each process: memory in MB, files and threads, first and last of their lines."""
    lines = [("process", "samples", "MB first", "MB last", "files", "threads")]
    for name, each in samples.items():
        kept = longest_life(each)
        lines.append((name, str(len(kept)), *_cells(kept)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cells(samples: Sequence[Sample]) -> tuple[str, str, str, str]:
    found = [trend(samples, figure) for figure in ("memory", "files", "threads")]
    memory, files, threads = found
    if memory is None or files is None or threads is None:
        return ("-", "-", "-", "-")
    return (
        f"{memory.first / MB:.1f}",
        f"{memory.last / MB:.1f}",
        f"{files.first:.0f} to {files.last:.0f}",
        f"{threads.first:.0f} to {threads.last:.0f}",
    )


def stored_bytes(folder: Path) -> int:
    """Bytes of all files below a folder."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # removed while we looked
            continue
    return size
