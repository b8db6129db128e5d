"""Breaks one cue's text into as few lines as possible, balanced, at good places."""

from collections.abc import Sequence

from captions.model import Token
from captions.rules import Rules

IMBALANCE = 90.0
"""Cost of a line that is a full line longer or shorter than the average."""
ORPHAN = 35.0
"""Cost of a line with a single word."""
TOP_HEAVY = 3.0


def breaks(tokens: Sequence[Token], costs: Sequence[float], rules: Rules) -> list[int]:
    """Token index at which each line begins, including 0; `costs` has the cost of each place."""
    needed = lines_needed(tokens, rules)
    if needed <= 1:
        return [0]
    return _Layout(tokens, costs, rules, needed).best()


def lines_needed(tokens: Sequence[Token], rules: Rules) -> int:
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
