"""Checks cues against the rules of subtitling; for benchmarks and tests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from captions.model import Cue
from captions.rules import Rules
from captions.text import width


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many cues keep the rules."""

    cues: int
    within_hard_rules: int
    within_reading_speed: int
    faults: tuple[str, ...]
    """A message for every broken hard rule."""

    @property
    def hard_share(self) -> float:
        """Share of cues within the hard rules, 0 to 1; 1 if there are none."""
        return self.within_hard_rules / self.cues if self.cues else 1.0

    @property
    def speed_share(self) -> float:
        """Share of cues a reader can follow, 0 to 1; 1 if there are none."""
        return self.within_reading_speed / self.cues if self.cues else 1.0


def judge(cues: Sequence[Cue], rules: Rules) -> Verdict:
    """Checks every cue against the rules."""
    faults: list[str] = []
    clean = 0
    for number, cue in enumerate(cues):
        previous = cues[number - 1] if number else None
        found = [f"cue {number + 1}: {fault}" for fault in hard_faults(cue, previous, rules)]
        clean += not found
        faults += found
    fast_enough = sum(within_reading_speed(cue, rules) for cue in cues)
    return Verdict(len(cues), clean, fast_enough, tuple(faults))


def hard_faults(cue: Cue, previous: Cue | None, rules: Rules) -> Iterator[str]:
    """The hard rules a cue breaks: lines, characters, duration, and its place after another."""
    if not 1 <= len(cue.lines) <= rules.max_lines:
        yield f"{len(cue.lines)} lines"
    for line in cue.lines:
        if not line.strip() or "\n" in line:
            yield f"{line!r} is not a line"
        if width(line) > rules.columns:
            yield f"{line!r} is too long"
    if not rules.min_duration <= cue.end - cue.start <= rules.max_duration:
        yield f"{cue.end - cue.start} ms on the screen"
    if cue.start < 0:
        yield "before the beginning"
    if previous is not None and cue.start - previous.end < rules.min_gap:
        yield f"{cue.start - previous.end} ms after the one before"


def within_reading_speed(cue: Cue, rules: Rules) -> bool:
    """Whether there is time to read it; a line break counts as a space."""
    columns = sum(map(width, cue.lines)) + len(cue.lines) - 1
    return columns <= (cue.end - cue.start) * rules.columns_per_ms + 1e-6
