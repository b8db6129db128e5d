"""Estimates when each character of a segment was spoken."""

from collections.abc import Iterator
from itertools import accumulate

from captions.model import Segment
from captions.text import clean

_PAUSES = {".": 4, "!": 4, "?": 4, "。": 3, "！": 3, "？": 3, "…": 4}
_PAUSES |= {",": 2, ";": 3, ":": 3, "、": 2, "，": 2, "—": 3}
"""Speakers pause at punctuation: the time of each mark, in letters."""
_NEAR = 24
"""Characters to look ahead for a word the text spells differently."""


class Clock:
    """Places the characters of a segment in time: by its words, else evenly."""

    def __init__(self, segment: Segment, squeezed: str) -> None:
        """Takes the segment and its text without any space."""
        located = list(_located(segment, squeezed))
        self.has_word_times = bool(located)
        """Whether the times come from the words of the segment."""
        self._starts: list[float] = []
        self._ends: list[float] = []
        time = float(segment.start)
        for begin, word_start, stop, word_end in located:
            start = max(time, word_start)
            self._spread(squeezed[len(self._starts) : begin], time, start)
            time = max(start, word_end)
            self._spread(squeezed[begin:stop], start, time)
        self._spread(squeezed[len(self._starts) :], time, max(time, segment.end))

    def _spread(self, text: str, start: float, end: float) -> None:
        weights = list(accumulate(_PAUSES.get(character, 1) for character in text))
        if weights:
            step = (end - start) / weights[-1]
            self._starts += [start, *(start + weight * step for weight in weights[:-1])]
            self._ends += [start + weight * step for weight in weights]

    def span(self, begin: int, stop: int) -> tuple[int, int]:
        """Start and end time of the characters from one position up to another."""
        return round(self._starts[begin]), round(self._ends[stop - 1])


def _located(segment: Segment, squeezed: str) -> Iterator[tuple[int, int, int, int]]:
    """Position in the text and time of each word; skips words the text does not contain."""
    place = 0
    for word in segment.words:
        text = "".join(clean(word.text).split())
        found = squeezed.find(text, place, place + len(text) + _NEAR) if text else -1
        if found >= 0:
            place = found + len(text)
            yield found, max(0, word.start), place, max(0, word.end)
