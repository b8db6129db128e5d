"""What was measured, as a table, a verdict and JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta

from benchmarks.processes import SERVICES, Memory, restarted

MB = 1_000_000
STEP_SECONDS = 600.0
ALLOWED_GROWTH = 30 * MB
WATCHED = "orchestrator"


def step_for(seconds: float) -> float:
    """Ten minutes of media; of a short recording a sixth, so that there is something to see."""
    return min(STEP_SECONDS, seconds / 6)


class Marks:
    """Says when another step of media was passed."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._passed = 0

    def passed_by(self, media_seconds: float) -> bool:
        """True once for each step, however many were passed at once."""
        reached = math.floor(media_seconds / self._step + 1e-9)
        news = reached > self._passed
        self._passed = max(self._passed, reached)
        return news


@dataclass(frozen=True, slots=True)
class Sample:
    """The memory of everybody when the transcription was there."""

    media_seconds: float
    wall_seconds: float
    services: Mapping[str, Memory]


@dataclass(slots=True)
class Run:
    """One benchmark from its first sample to its last."""

    recording_seconds: float
    recording_bytes: int
    samples: list[Sample] = field(default_factory=list)
    peaks: dict[str, int] = field(default_factory=dict)
    """The most each service had with its children, looked at every second."""

    def note_peaks(self, services: Mapping[str, Memory]) -> None:
        """Keeps the most."""
        for name, memory in services.items():
            self.peaks[name] = max(self.peaks.get(name, 0), memory.with_children)

    def growth(self, name: str) -> int:
        """Bytes a service had at the end beyond those at the first mark."""
        return self.samples[-1].services[name].own - self.samples[0].services[name].own

    def fault(self) -> str:
        """Why the run fails; empty if it passes."""
        if len(self.samples) < 2:
            return "there are not two samples to compare"
        if restarted((sample.services for sample in self.samples), WATCHED):
            return f"the {WATCHED} was restarted on the way"
        if abs(self.growth(WATCHED)) > ALLOWED_GROWTH:
            return (
                f"the {WATCHED} ended {self.growth(WATCHED) / MB:+.1f} MB from the first mark, "
                f"more than the {ALLOWED_GROWTH / MB:.0f} MB allowed"
            )
        return ""


def clock(seconds: float) -> str:
    """2:50:00."""
    return str(timedelta(seconds=round(seconds)))


def table(run: Run) -> str:
    """A row for each sample, then the differences and the peaks; megabytes."""
    rows: list[tuple[str, ...]] = [("media", "wall", *SERVICES)]
    rows += [
        (
            clock(sample.media_seconds),
            clock(sample.wall_seconds),
            *(_cell(sample.services, name) for name in SERVICES),
        )
        for sample in run.samples
    ]
    if len(run.samples) > 1:
        rows.append(("change", "", *(_change(run, name) for name in SERVICES)))
    peaks = (f"{run.peaks[name] / MB:.1f}" if name in run.peaks else "-" for name in SERVICES)
    rows.append(("peak*", "", *peaks))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def verdict(run: Run) -> str:
    """The one figure that counts, in a sentence."""
    first, last = run.samples[0], run.samples[-1]
    return (
        f"{WATCHED}: {_cell(first.services, WATCHED)} MB at {clock(first.media_seconds)}, "
        f"{_cell(last.services, WATCHED)} MB at the end, {run.growth(WATCHED) / MB:+.1f} MB"
    )


def _cell(services: Mapping[str, Memory], name: str) -> str:
    return f"{services[name].own / MB:.1f}" if name in services else "-"


def _change(run: Run, name: str) -> str:
    ends: Sequence[Sample] = (run.samples[0], run.samples[-1])
    if any(name not in sample.services for sample in ends):
        return "-"
    return f"{run.growth(name) / MB:+.1f}"


def to_json(run: Run) -> dict[str, object]:
    """Everything that was measured."""
    return {
        **asdict(run),
        "allowed_growth_bytes": ALLOWED_GROWTH,
        "growth_bytes": run.growth(WATCHED) if len(run.samples) > 1 else None,
        "fault": run.fault(),
    }
