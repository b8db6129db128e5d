"""Sets start and end of cues: close to the speech, within the rules and the neighbouring cues."""

from collections.abc import Sequence
from dataclasses import dataclass

from captions.rules import Rules

EARLY_TO_FIT_MS = 1000
"""How early a cue may appear to reach its least duration."""
EARLY_TO_READ_MS = 240
"""How early a cue may appear to leave time to read it."""
LINGER_MS = 280
"""How long a cue stays after its words, if the next cue leaves time."""
CLOSE_MS = 500
"""Shorter gaps between cues are reduced to the least gap, to avoid flicker."""


@dataclass(frozen=True, slots=True)
class Speech:
    """The speech of a cue: its time, and the number of columns to read."""

    start: int
    end: int
    columns: int


def timed(speeches: Sequence[Speech], rules: Rules, duration: int = 0) -> list[tuple[int, int]]:
    """Start and end of each cue.

    They always keep the least and longest duration and the gap. If the speech is too dense, a cue
    comes up to a second early, then late, and in the worst case after the recording's end.
    """
    starts = _starts(speeches, rules, duration)
    found = []
    for number, (speech, start) in enumerate(zip(speeches, starts, strict=True)):
        last = number + 1 == len(speeches)
        bound = (duration or start + rules.max_duration) if last else starts[number + 1]
        bound = bound if last else bound - rules.min_gap
        bound = max(start + rules.min_duration, min(bound, start + rules.max_duration))
        wanted = max(speech.end + LINGER_MS, start + reading_ms(speech.columns, rules))
        end = min(max(wanted, start + rules.min_duration), bound)
        found.append((start, bound if not last and bound - end < CLOSE_MS else end))
    return found


def reading_ms(columns: int, rules: Rules) -> int:
    """How long it takes to read, rounded up."""
    return -int(-columns // rules.columns_per_ms)


def _starts(speeches: Sequence[Speech], rules: Rules, duration: int) -> list[int]:
    """Start with the speech; earlier if the next cue is close, later if the last one must stay."""
    least = rules.min_duration
    preferred: list[int] = []
    after = duration + rules.min_gap if duration else None
    for speech in reversed(speeches):
        start = speech.start
        if after is not None:
            reading = min(reading_ms(speech.columns, rules), rules.max_duration)
            to_read = max(after - rules.min_gap - reading, start - EARLY_TO_READ_MS)
            to_fit = max(after - rules.min_gap - least, start - EARLY_TO_FIT_MS)
            start = min(start, to_read, to_fit)
        after = max(0, start)
        preferred.append(after)
    starts: list[int] = []
    for start in reversed(preferred):
        earliest = starts[-1] + least + rules.min_gap if starts else 0
        starts.append(max(start, earliest))
    return starts
