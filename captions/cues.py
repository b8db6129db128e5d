"""Makes cues from segments: cuts the text, breaks lines, sets times."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from captions.boundaries import boundaries
from captions.cutting import cut
from captions.model import Cue, Segment, Token, joined
from captions.rules import Rules
from captions.tokens import tokens_of

IMBALANCE = 90.0
"""Cost of a line that is a full line longer or shorter than the average."""
ORPHAN = 35.0
"""Cost of a line with a single word."""
TOP_HEAVY = 3.0
EARLY_TO_FIT_MS = 1000
"""How early a cue may appear to reach its least duration."""
EARLY_TO_READ_MS = 240
"""How early a cue may appear to leave time to read it."""
LINGER_MS = 280
"""How long a cue stays after its words, if the next cue leaves time."""
CLOSE_MS = 500
"""Shorter gaps between cues are reduced to the least gap, to avoid flicker."""


@dataclass(frozen=True, slots=True)
class _Speech:
    """The speech of a cue: its time, and the number of columns to read."""

    start: int
    end: int
    columns: int


def cues(
    segments: Sequence[Segment], rules: Rules, *, language: str = "", duration: int = 0
) -> list[Cue]:
    """Every word once and in order, in cues that keep the rules; duration 0 means unknown."""
    tokens = tokens_of(segments, rules, duration)
    places = boundaries(tokens, language)
    cuts = cut(tokens, places, rules)
    texts = [
        _lines(tokens[begin:end], places.cost[begin : end + 1], rules)
        for begin, end in itertools.pairwise(cuts)
    ]
    times = _timed([_speech(lines) for lines in texts], rules, duration)
    return [_cue(lines, *time) for lines, time in zip(texts, times, strict=True)]


def _lines(
    tokens: Sequence[Token], costs: Sequence[float], rules: Rules
) -> tuple[tuple[Token, ...], ...]:
    """The tokens of each line; `costs` has the cost of a break at each place."""
    needed = _lines_needed(tokens, rules)
    begins = _Layout(tokens, costs, rules, needed).best() if needed > 1 else [0]
    return tuple(
        tuple(tokens[begin:end]) for begin, end in itertools.pairwise([*begins, len(tokens)])
    )


def _speech(lines: tuple[tuple[Token, ...], ...]) -> _Speech:
    columns = sum(token.width + token.spaced for line in lines for token in line)
    # A line break counts as a space; the first token has none.
    extra = sum(1 - line[0].spaced for line in lines) - 1
    return _Speech(lines[0][0].start, lines[-1][-1].end, columns + extra)


def _cue(lines: tuple[tuple[Token, ...], ...], start: int, end: int) -> Cue:
    every = [token for line in lines for token in line]
    return Cue(start, end, tuple(map(joined, lines)), joined(every), lines)


def _lines_needed(tokens: Sequence[Token], rules: Rules) -> int:
    """The least number of lines the tokens need."""
    lines, used = 0, rules.columns + 1
    for token in tokens:
        added = token.width + token.spaced
        if used + added <= rules.columns:
            used += added
        else:
            lines += 1
            used = token.width
    return lines


class _Layout:
    def __init__(
        self, tokens: Sequence[Token], costs: Sequence[float], rules: Rules, lines: int
    ) -> None:
        self._tokens = tokens
        self._costs = costs
        self._columns = rules.columns
        self._lines = lines
        self._target = sum(token.width + token.spaced for token in tokens) / lines

    def best(self) -> list[int]:
        """The cheapest way to fill exactly the lines needed."""
        # rest[b]: cost and line beginnings of the tokens from b on, in the lines left.
        count = len(self._tokens)
        rest: dict[int, tuple[float, list[int]]] = {count: (0.0, [])}
        for left in range(1, self._lines + 1):
            begins = range(count) if left < self._lines else range(1)
            rest = {
                begin: min(found)
                for begin in begins
                if (found := [self._with(begin, end, rest[end]) for end in self._ends(begin, rest)])
            }
        return rest[0][1]

    def _ends(self, begin: int, rest: dict[int, tuple[float, list[int]]]) -> list[int]:
        found, used = [], -int(self._tokens[begin].spaced)
        for end in range(begin, len(self._tokens)):
            used += self._tokens[end].width + self._tokens[end].spaced
            if used > self._columns:
                break
            if end + 1 in rest:
                found.append(end + 1)
        return found

    def _with(self, begin: int, end: int, rest: tuple[float, list[int]]) -> tuple[float, list[int]]:
        used = sum(token.width + token.spaced for token in self._tokens[begin:end])
        off = (used - self._target) / self._columns
        cost = rest[0] + IMBALANCE * off * off + (self._costs[end] if rest[1] else 0.0)
        if end - begin == 1 and len(self._tokens) > self._lines:
            cost += ORPHAN
        if rest[1] and off > 0:
            cost += TOP_HEAVY
        return cost, [begin, *rest[1]]


def _timed(speeches: Sequence[_Speech], rules: Rules, duration: int) -> list[tuple[int, int]]:
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
        wanted = max(speech.end + LINGER_MS, start + _reading_ms(speech.columns, rules))
        end = min(max(wanted, start + rules.min_duration), bound)
        found.append((start, bound if not last and bound - end < CLOSE_MS else end))
    return found


def _reading_ms(columns: int, rules: Rules) -> int:
    """How long it takes to read, rounded up."""
    return -int(-columns // rules.columns_per_ms)


def _starts(speeches: Sequence[_Speech], rules: Rules, duration: int) -> list[int]:
    """Start with the speech; earlier if the next cue is close, later if the last one must stay."""
    least = rules.min_duration
    preferred: list[int] = []
    after = duration + rules.min_gap if duration else None
    for speech in reversed(speeches):
        start = speech.start
        if after is not None:
            reading = min(_reading_ms(speech.columns, rules), rules.max_duration)
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
