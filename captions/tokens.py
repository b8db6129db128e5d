"""Segments as tokens: cleaned, never longer than a line, each with its time, in order."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import budoux

from captions.model import Segment, Token
from captions.rules import Rules
from captions.text import NEVER_LAST, UNSPACED, clean, needs_space, parts, width

_THAI = re.compile(r"[\u0e00-\u0e7f]")
_KANA = re.compile(r"[\u3040-\u30ff\uff66-\uff9f]")
_PAUSES = {".": 4, "!": 4, "?": 4, "。": 3, "！": 3, "？": 3, "…": 4}
_PAUSES |= {",": 2, ";": 3, ":": 3, "、": 2, "，": 2, "—": 3}
"""Speakers pause at punctuation: the time of each mark, in letters."""
_NEAR = 24
"""Characters to look ahead for a word the text spells differently."""


def tokens_of(segments: Sequence[Segment], rules: Rules, duration: int = 0) -> list[Token]:
    """Every word of the segments, once and in order; times never go back."""
    found: list[Token] = []
    for number, segment in enumerate(segments):
        after = segments[number + 1].start if number + 1 < len(segments) else None
        found += _of_segment(number, _within(segment, after, duration), rules, found)
    return _in_order(found, duration)


def _within(segment: Segment, after: int | None, duration: int) -> Segment:
    """The segment cut to the recording and to the start of the next segment."""
    last = duration or max(segment.end, segment.start, 0)
    start = min(max(segment.start, 0), last)
    end = min(max(segment.end, start), last)
    if after is not None and start < after < end:
        end = after
    return replace(segment, start=start, end=end)


def _of_segment(
    number: int, segment: Segment, rules: Rules, before: Sequence[Token]
) -> Iterator[Token]:
    chunks = _chunks(clean(segment.text), rules.columns)
    clock = _Clock(segment, "".join(map(_squeezed, chunks)))
    place = 0
    for order, chunk in enumerate(chunks):
        parted = order > 0 or (bool(before) and needs_space(before[-1].text, chunk))
        for piece in _pieces(chunk, rules.columns):
            begin, place = place, place + len(_squeezed(piece.text))
            start, end = clock.span(begin, place)
            yield Token(
                text=piece.text,
                start=start,
                end=end,
                width=width(piece.text),
                spaced=parted or piece.spaced,
                segment=number,
                severed=piece.severed,
                timed=clock.has_word_times,
            )
            parted = False


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _chunks(text: str, limit: int) -> list[str]:
    """Splits at spaces; a lone punctuation mark stays with the word it belongs to."""
    found: list[str] = []
    opening = ""
    for word in filter(width, (part.strip() for part in text.split(" "))):
        alone = not any(c.isalnum() for c in word)
        if opening and width(opening) + 1 + width(word) <= limit:
            word, opening = f"{opening} {word}", ""
        elif opening:
            found.append(opening)
            opening = ""
        if alone and (not found or word[-1] in NEVER_LAST):
            opening = word
        elif alone and width(found[-1]) + 1 + width(word) <= limit:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return [*found, opening] if opening else found


class _Piece(NamedTuple):
    text: str
    spaced: bool
    severed: bool


def _pieces(chunk: str, limit: int) -> list[_Piece]:
    """Splits unspaced scripts into phrases, and whatever is longer than a line."""
    found: list[_Piece] = []
    spaced = False
    for phrase in _phrases(chunk):
        spaced = spaced or phrase[:1].isspace()
        for order, part in enumerate(parts(phrase.strip(), limit)):
            if found and not width(part):  # invisible on its own
                found[-1] = found[-1]._replace(text=found[-1].text + part)
            else:
                found.append(_Piece(part, spaced and order == 0, order > 0))
        spaced = phrase[-1:].isspace()
    return found


def _phrases(chunk: str) -> list[str]:
    if chunk.isascii():
        return [chunk]
    if _THAI.search(chunk):
        return _parser("th").parse(chunk)
    if UNSPACED.search(chunk):
        return _parser("ja" if _KANA.search(chunk) else "zh").parse(chunk)
    return [chunk]


@lru_cache(maxsize=3)
def _parser(language: str) -> budoux.Parser:
    return {
        "ja": budoux.load_default_japanese_parser,
        "th": budoux.load_default_thai_parser,
        "zh": budoux.load_default_simplified_chinese_parser,
    }[language]()


def _in_order(tokens: list[Token], duration: int) -> list[Token]:
    latest = 0
    starts = []
    for token in tokens:
        latest = max(latest, min(token.start, duration or token.start))
        starts.append(latest)
    ends = [*starts[1:], duration or tokens[-1].end] if tokens else []
    return [
        replace(token, start=start, end=max(start, min(token.end, bound)))
        for token, start, bound in zip(tokens, starts, ends, strict=True)
    ]


class _Clock:
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
        text = _squeezed(clean(word.text))
        found = squeezed.find(text, place, place + len(text) + _NEAR) if text else -1
        if found >= 0:
            place = found + len(text)
            yield found, max(0, word.start), place, max(0, word.end)
