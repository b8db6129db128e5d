"""Finds loops in transcripts; shares no code with the transcriber, whose work it judges."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

APOSTROPHES = "'\u2019"
MAX_WORDS = 8
MIN_WORD_TIMES = 5
MAX_CHARACTERS = 6
MIN_CHARACTER_TIMES = 8


@dataclass(frozen=True, slots=True)
class Loop:
    """A unit of words or characters repeated in a row."""

    unit: tuple[str, ...]
    times: int


def find_loops(text: str, reference: str | None = None) -> list[Loop]:
    """Loops of a text, unless the reference repeats the same unit as often as a loop must.

    A loop is 1 to 8 words at least 5 times in a row, or 1 to 6 characters at least 8 times.
    Case, spaces, and punctuation between words make no difference.
    """
    said = {_rotated(loop.unit) for loop in _loops(reference or "")}
    return [loop for loop in _loops(text) if _rotated(loop.unit) not in said]


def _loops(text: str) -> list[Loop]:
    return [*_of_words(text), *_of_characters(text)]


def split_words(text: str) -> list[str]:
    """Words of any script, without case and punctuation."""
    # Not by \w: it holds no vowel signs, and would make one word of "ki", "ka" and "ke" in Hindi.
    return "".join(map(_without_punctuation, text.casefold())).split()


def _without_punctuation(sign: str) -> str:
    if sign in APOSTROPHES:
        return ""
    return " " if unicodedata.category(sign)[0] in "PSC" else sign


def _of_words(text: str) -> Iterator[Loop]:
    return repeats(split_words(text), MAX_WORDS, MIN_WORD_TIMES)


def _of_characters(text: str) -> Iterator[Loop]:
    return repeats("".join(text.casefold().split()), MAX_CHARACTERS, MIN_CHARACTER_TIMES)


def repeats(items: Sequence[str], longest: int, least: int) -> Iterator[Loop]:
    """Every unit of at most `longest` items that stands at least `least` times in a row."""
    for size in range(1, longest + 1):
        same = [items[at] == items[at + size] for at in range(len(items) - size)]
        begin = 0
        for is_same, run in groupby(same):
            length = len(list(run))
            unit = tuple(items[begin : begin + size])
            times = length // size + 1
            if is_same and times >= least and _is_primitive(unit):
                yield Loop(unit, times)
            begin += length


def _is_primitive(unit: tuple[str, ...]) -> bool:
    """Whether a unit is no repetition of a shorter one, which is found already."""
    size = len(unit)
    return not any(
        size % part == 0 and unit == unit[:part] * (size // part) for part in range(1, size)
    )


def _rotated(unit: tuple[str, ...]) -> tuple[str, ...]:
    """The same for every place at which a loop may begin."""
    return min(unit[at:] + unit[:at] for at in range(len(unit)))
