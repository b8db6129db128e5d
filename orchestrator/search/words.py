"""Cuts text into searchable words: case, accents and width folded, for every script.

Scripts written without spaces, and Korean, whose words grow particles, become overlapping pairs of
characters and the last character alone: any part of a sentence is then a phrase of pairs, and a
single character the beginning of one.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

VERSION = 1
"""Of what this module makes of a text: a new one rebuilds every index."""
MAX_WORD = 64
"""Characters of a word that are searchable."""

_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e80-\u0ece"  # Lao
    "\u1000-\u103f\u1050-\u108f"  # Burmese
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Korean
    "\u1780-\u17d3"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"  # Chinese characters
    "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
)
"""Ranges of characters for a class of a regular expression."""


def _marks() -> str:
    """Characters that go on with the one before, such as the vowel signs of India."""
    found = (chr(code) for code in range(0x300, 0x1F000))
    return "".join(char for char in found if unicodedata.category(char).startswith("M"))


_MARKS = _marks()
_RUN = re.compile(f"[\\w{_MARKS}]+")
_ASCII_RUN = re.compile("[0-9A-Za-z]+")
_UNUSUAL = re.compile(f"[{_UNSPACED}_]|^[{_MARKS}]")
"""What a run holds that has to be taken apart."""
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_PART = re.compile(f"[{_UNSPACED}]+|[^_{_UNSPACED}]+")
_ACCENTS = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points
    "\u0640\u064b-\u065f\u0670\u06d6-\u06ed]"  # Arabic vowel signs, and lengthening
)
_SIGNS = re.compile(r"[\x00-\x2f\x3a-\x60\x7b-\x7f]+")
_LETTERS = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "ħ": "h",
        "ı": "i",
        "ŧ": "t",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "ى": "ي",
        "ی": "ي",
        "ک": "ك",
        "ة": "ه",
    }
)
"""Letters that Unicode does not take apart, and Arabic ones that are written either way."""


class Word(NamedTuple):
    """A searchable word, and where it stands in the text."""

    text: str
    start: int
    end: int


class Run(NamedTuple):
    """Adjacent characters of one kind: a word, or a part of a sentence without spaces."""

    text: str
    start: int
    end: int
    unspaced: bool


def normalized(text: str) -> str:
    """The text as it is indexed and shown: composed, spaces joined."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@lru_cache(maxsize=65_536)
def folded(text: str) -> str:
    """A word without case, accents and width."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    plain = _ACCENTS.sub("", apart).translate(_LETTERS)
    return _SIGNS.sub("", unicodedata.normalize("NFC", plain))


def runs(text: str) -> Iterator[Run]:
    """The runs of a normalized text."""
    pattern = _ASCII_RUN if text.isascii() else _RUN
    for found in pattern.finditer(text):
        run, start = found[0], found.start()
        if run.isalnum() and run.isascii():
            yield Run(run, start, start + len(run), False)
            continue
        for part, place, unspaced in _parts(run):
            yield Run(part, start + place, start + place + len(part), unspaced)


@lru_cache(maxsize=65_536)
def _parts(run: str) -> tuple[tuple[str, int, bool], ...]:
    """The parts of a run, where they begin in it, and whether they are unspaced."""
    if _UNUSUAL.search(run) is None:
        return ((run, 0, False),)
    return tuple(
        (part[0], part.start(), _UNSPACED_RUN.fullmatch(part[0]) is not None)
        for part in _PART.finditer(run)
    )


def words(text: str) -> Iterator[Word]:
    """The searchable words of a normalized text, in order."""
    for run in runs(text):
        if run.unspaced:
            yield from _pairs(run)
        elif word := folded(run.text)[:MAX_WORD]:
            yield Word(word, run.start, run.end)


def _pairs(run: Run) -> Iterator[Word]:
    single = [folded(char) or char for char in run.text]
    for place, char in enumerate(single):
        following = single[place + 1] if place + 1 < len(single) else ""
        start = run.start + place
        yield Word(char + following, start, start + 1 + bool(following))
