"""Decides which tokens share a cue, by the cheapest set of cuts over the whole text."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from captions.boundaries import Boundaries
from captions.model import Token
from captions.rules import Rules

BETWEEN_CUES = 1.3
"""Weight of a cut between two cues: more visible than a line break."""
WITHIN_CUE = 0.6
"""Weight of the best line break within a cue."""
CUE = 10.0
"""Cost of every cue: each makes the reader's eyes move."""
EMPTINESS = 8.0
"""Cost of an empty cue; evens out the cues of a long sentence."""
SENTENCE_INSIDE = 0.0035
"""Cost per millisecond of a cue with several sentences: short ones may share a cue."""
RAGGED = 16.0
"""Extra cost if the last of them is cut off."""
FRAGMENT = 30.0
"""Cost of a very short cue that is not a sentence."""
FRAGMENT_SHARE = 0.25
"""A cue shorter than this share of a line is a fragment."""
HASTE, TOO_FAST = 6.0, 45.0
"""Cost of a cue that is too fast to read: fixed, and per multiple of the reading speed."""
SQUEEZE, TOO_SHORT = 15.0, 60.0
"""Cost of a cue that the next one cuts short: fixed, and if no time is left at all."""
EASY_PAUSE_MS = 200
PAUSE_INSIDE = 0.03
"""Cost per millisecond of a longer silence inside a cue."""
SPLITTING_PAUSE_MS = 2000
"""No cue continues across a silence this long."""


def cut(tokens: Sequence[Token], places: Boundaries, rules: Rules) -> list[int]:
    """Where cues begin, and where the last one ends."""
    if not tokens:
        return [0]
    return _Cutter(tokens, places, rules).cut()


class _Cutter:
    def __init__(self, tokens: Sequence[Token], places: Boundaries, rules: Rules) -> None:
        self._rules = rules
        self._places = places
        self._count = len(tokens)
        self._starts = [token.start for token in tokens]
        # After the last word there is time for a full cue.
        self._starts.append(tokens[-1].end + rules.max_duration)
        self._ends = [token.end for token in tokens]
        self._widths = [token.width for token in tokens]
        self._spaces = [int(token.spaced) for token in tokens]
        added = (token.width + token.spaced for token in tokens)
        self._columns_before = list(accumulate(added, initial=0))
        self._sentences = list(accumulate(places.ends_sentence))
        silences = (max(0.0, pause - EASY_PAUSE_MS) * PAUSE_INSIDE for pause in places.pause)
        self._silence = list(accumulate(silences))

    def cut(self) -> list[int]:
        """The cheapest cuts."""
        best = [0.0] + [float("inf")] * self._count
        came_from = [0] * (self._count + 1)
        for begin in range(self._count):
            base = best[begin]
            for end, columns, broken in self._reach(begin):
                cost = base + self._cost(begin, end, columns)
                if broken and cost < best[end]:
                    cost += self._line_break(begin, end, broken)
                if cost < best[end]:
                    best[end] = cost
                    came_from[end] = begin
        cuts = [self._count]
        while cuts[-1]:
            cuts.append(came_from[cuts[-1]])
        return cuts[::-1]

    def _reach(self, begin: int) -> list[tuple[int, int, int]]:
        """Every end a cue from here may have, with its columns and the latest line break, if any.

        The next token is always one: no token is longer than a line.
        """
        rules, widths, spaces = self._rules, self._widths, self._spaces
        room, pauses, ends = rules.columns, self._places.pause, self._ends
        latest = self._starts[begin] + rules.max_duration
        line = columns = widths[begin]
        lines, broken = 1, 0
        found = [(begin + 1, columns, 0)]
        for end in range(begin + 1, self._count):
            added = widths[end] + spaces[end]
            line += added
            if line > room:
                lines += 1
                line = widths[end]
                broken = end
            if lines > rules.max_lines or ends[end] > latest or pauses[end] >= SPLITTING_PAUSE_MS:
                break
            columns += added
            found.append((end + 1, columns, broken if lines == 2 else 0))
        return found

    def _line_break(self, begin: int, end: int, latest: int) -> float:
        """Cost of the best line break of a two-line cue."""
        total = self._columns_before
        first = bisect_left(total, total[end] - self._rules.columns - 1, begin + 1, latest)
        return WITHIN_CUE * min(self._places.cost[first : latest + 1])

    def _cost(self, begin: int, end: int, columns: int) -> float:
        rules, places = self._rules, self._places
        cost = CUE + BETWEEN_CUES * places.cost[end] + self._silence[end - 1] - self._silence[begin]
        empty = 1 - columns / (rules.columns * rules.max_lines)
        cost += EMPTINESS * empty * empty
        whole = places.ends_sentence[begin] and places.ends_sentence[end]
        sentences = self._sentences[end - 1] - self._sentences[begin]
        if sentences:
            spoken = self._ends[end - 1] - self._starts[begin]
            cost += SENTENCE_INSIDE * spoken * sentences
            cost += 0 if places.ends_sentence[end] else RAGGED
        if not whole and columns < FRAGMENT_SHARE * rules.columns:
            cost += FRAGMENT
        time = min(rules.max_duration, self._starts[end] - self._starts[begin] - rules.min_gap)
        if time < rules.min_duration:
            cost += SQUEEZE + TOO_SHORT * (1 - max(0, time) / rules.min_duration)
        haste = columns / (max(time, rules.min_duration) * rules.columns_per_ms)
        if haste > 1:
            cost += HASTE + TOO_FAST * (haste - 1)
        return cost
