"""The referee: checks one decode of a window against the speech it was made from.

Whisper's own check, the compression of the whole text, overlooks a loop inside good text, and its
confidence does not fall there. The referee looks at the text itself: runs of repeated syllables,
words and phrases, more text than the speech has time for, speech without text. It judges text and
times only, so that every rule can be tested without a model.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

Span = tuple[float, float]
"""Begin and end in seconds from the beginning of the window."""

MAX_SYLLABLES, MAX_WORDS, MAX_PHRASES, MAX_DIGITS = 7, 4, 3, 12
"""How often people say the same syllable, word or phrase in a row; more is a loop. Numbers have
long runs of zeros."""

KEPT = 2
"""Repetitions left of a loop that no decode avoids."""

SYLLABLE, WORD = 3, 12
"""Most letters of a repeated syllable, and of a repeated word; longer units are phrases."""

LONGEST_UNIT = 120
"""Characters of the longest unit that is searched for."""

CHARACTERS_PER_SECOND, IDEOGRAMS_PER_SECOND = 32.0, 14.0
"""More than the fastest speakers say, in scripts with letters and in scripts without."""

SPARE_SECONDS = 1.0
"""Added to the speech, since the voice detector misses soft beginnings and ends."""

UNHEARD_SECONDS = 0.8
"""Speech after the last text, or between two texts: longer than this, words are missing."""

EARLY = 0.3
"""A phrase may end this long before its speech begins: its times are about as precise."""


class Fault(Enum):
    """What is wrong with a decode."""

    REPEATS = auto()
    """A unit repeats more often than people say it."""

    TOO_MUCH_TEXT = auto()
    """The text does not fit into the speech."""

    WORDS_MISSING = auto()
    """There is speech without text."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A unit that repeats too often, by its place in the text."""

    start: int
    end: int
    unit: str


def find_loops(text: str) -> list[Loop]:
    """Loops in order, without overlap; case, spaces and punctuation do not hide one."""
    plain, places = _plain(text)
    found: list[Loop] = []
    position = 0
    while position < len(plain):
        loop = _loop_at(plain, position)
        if loop is None:
            position += 1
            continue
        unit, end = loop
        found.append(Loop(places[position], places[end - 1] + 1, unit))
        position = end
    return found


def without_loops(phrases: Sequence[str]) -> list[str]:
    """The phrases with few repetitions left of each loop, also of one that goes across them."""
    left = [(char, number) for number, phrase in enumerate(phrases) for char in phrase]
    # What is left of a loop may form another.
    while loops := find_loops(text := "".join(char for char, _ in left)):
        for loop in reversed(loops):
            _, places = _plain(text[loop.start : loop.end])
            del left[loop.start + places[len(loop.unit) * KEPT - 1] + 1 : loop.end]
    return [
        "".join(char for char, owner in left if owner == number) for number in range(len(phrases))
    ]


def faults(text: str, spans: Sequence[Span], speech: Sequence[Span]) -> frozenset[Fault]:
    """What is wrong with a text, given the times of its phrases and of the speech."""
    checks = {
        Fault.REPEATS: bool(find_loops(text)),
        Fault.TOO_MUCH_TEXT: _needed_seconds(text) > total(speech) + SPARE_SECONDS,
        Fault.WORDS_MISSING: unheard(spans, speech) > UNHEARD_SECONDS,
    }
    return frozenset(fault for fault, is_so in checks.items() if is_so)


def doubled_words(text: str) -> frozenset[str]:
    """Words that follow themselves: people stutter so, and so does a model in doubt.

    Compounds with a hyphen are one word: some languages form the plural like that.
    """
    words = re.findall(r"[\w'-]+", text.lower())
    return frozenset(word for word, following in pairwise(words) if word == following)


def unheard(spans: Sequence[Span], speech: Sequence[Span]) -> float:
    """Seconds of speech in the longest stretch without text."""
    edges = [0.0, *(edge for span in spans for edge in span), float("inf")]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return max(_overlap(gap, speech) for gap in gaps)


def has_speech(span: Span, speech: Sequence[Span]) -> bool:
    """Whether anything is spoken during a span."""
    return _overlap((span[0], span[1] + EARLY), speech) > 0


def total(speech: Sequence[Span]) -> float:
    """Seconds of all spans."""
    return sum(end - start for start, end in speech)


def _overlap(span: Span, speech: Sequence[Span]) -> float:
    return sum(max(0.0, min(span[1], end) - max(span[0], start)) for start, end in speech)


def _needed_seconds(text: str) -> float:
    """The least time in which the text can be said."""
    ideograms = len(re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", text))
    return (len(text) - ideograms) / CHARACTERS_PER_SECOND + ideograms / IDEOGRAMS_PER_SECOND


def _plain(text: str) -> tuple[str, list[int]]:
    """Letters and digits in lower case, and the place of each in the text."""
    kept = [(char.lower(), place) for place, char in enumerate(text) if _counts(char)]
    # Some letters have a lower case of two characters; each keeps its one place.
    return "".join(char[0] for char, _ in kept), [place for _, place in kept]


def _counts(char: str) -> bool:
    # Vowel signs of Indic scripts are marks, not letters.
    return char.isalnum() or "\u0900" <= char <= "\u0dff"


def _loop_at(plain: str, start: int) -> tuple[str, int] | None:
    """The shortest unit that repeats too often from here, and the end of its run."""
    for length in range(1, min(LONGEST_UNIT, (len(plain) - start) // (MAX_PHRASES + 1)) + 1):
        end = start + length
        while end < len(plain) and plain[end] == plain[end - length]:
            end += 1
        unit, repetitions = plain[start : start + length], (end - start) // length
        if repetitions > _allowed(unit):
            return unit, start + repetitions * length
    return None


def _allowed(unit: str) -> int:
    if unit.isdigit():
        return MAX_DIGITS
    if len(unit) <= SYLLABLE:
        return MAX_SYLLABLES
    return MAX_WORDS if len(unit) <= WORD else MAX_PHRASES
