"""When cues come and go: with the speech, as far as the rules and the neighbours allow."""

from collections.abc import Sequence
from dataclasses import dataclass

from captions.rules import Rules

EARLY_TO_FIT_MS = 1000
"""How much before its words a cue may come so that it can stay long enough."""
EARLY_TO_READ_MS = 240
"""And so that it can be read."""
LINGER_MS = 280
"""How long a cue stays after its words, if nothing else needs the time."""
CLOSE_MS = 500
"""Shorter holes between cues are closed to the least gap: they would only flicker."""


@dataclass(frozen=True, slots=True)
class Speech:
    """What a cue is about: when it is said, and how much there is to read."""

    start: int
    end: int
    columns: int


def timed(speeches: Sequence[Speech], rules: Rules, duration: int = 0) -> list[tuple[int, int]]:
    """From when to when each cue stands.

    Starts and ends always keep the least and longest duration and the gap. Where more is said than
    fits, a cue comes early, up to a second, then late, and after the recording's end at the worst.
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
    """With the speech; earlier if the next one comes too soon, later if the last one must stay."""
    least = rules.min_duration
    wished: list[int] = []
    after = duration + rules.min_gap if duration else None
    for speech in reversed(speeches):
        start = speech.start
        if after is not None:
            reading = min(reading_ms(speech.columns, rules), rules.max_duration)
            to_read = max(after - rules.min_gap - reading, start - EARLY_TO_READ_MS)
            to_fit = max(after - rules.min_gap - least, start - EARLY_TO_FIT_MS)
            start = min(start, to_read, to_fit)
        after = max(0, start)
        wished.append(after)
    starts: list[int] = []
    for start in reversed(wished):
        earliest = starts[-1] + least + rules.min_gap if starts else 0
        starts.append(max(start, earliest))
    return starts
