"""Makes cues from segments: cuts the text, breaks lines, sets times."""

import itertools
from collections.abc import Sequence

from captions.boundaries import boundaries
from captions.cutting import cut
from captions.lines import breaks
from captions.model import Cue, Segment, Token, joined
from captions.rules import Rules
from captions.timing import Speech, timed
from captions.tokens import tokens_of


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
    speeches = [_speech(lines) for lines in texts]
    times = timed(speeches, rules, duration)
    return [_cue(lines, *time) for lines, time in zip(texts, times, strict=True)]


def _lines(
    tokens: Sequence[Token], costs: Sequence[float], rules: Rules
) -> tuple[tuple[Token, ...], ...]:
    places = [*breaks(tokens, costs, rules), len(tokens)]
    return tuple(tuple(tokens[begin:end]) for begin, end in itertools.pairwise(places))


def _speech(lines: tuple[tuple[Token, ...], ...]) -> Speech:
    columns = sum(token.width + token.spaced for line in lines for token in line)
    # A line break counts as a space; the first token has none.
    extra = sum(1 - line[0].spaced for line in lines) - 1
    return Speech(lines[0][0].start, lines[-1][-1].end, columns + extra)


def _cue(lines: tuple[tuple[Token, ...], ...], start: int, end: int) -> Cue:
    every = [token for line in lines for token in line]
    return Cue(start, end, tuple(map(joined, lines)), joined(every), lines)
