"""Cuts a transcript into passages: what is found, ranked and shown as one."""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from captions.model import Segment, Token, Transcript, joined, translated
from captions.rules import rules_for
from captions.tokens import tokens_of

VERSION = 1
"""Of how transcripts are cut: a new one rebuilds every index."""
USUAL_CHARACTERS, MOST_CHARACTERS = 400, 900
"""A passage ends with the segment that reaches the first, and at once at the second."""
TAIL_CHARACTERS = 80
"""Of the next passage: a phrase is found across the border."""
PAUSE_MS = 8000
"""Speech after a longer pause belongs to another passage."""
UNBROKEN = 1_000_000
"""A line length that parts no word."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of speech with its text, and the time of each word."""

    text: str
    """Followed by the beginning of the next passage."""
    own: int
    """Characters that are not of the next one."""
    start: int
    """Milliseconds from the beginning of the recording."""
    end: int
    language: str
    translated: bool
    times: tuple[tuple[int, int], ...]
    """Places in the text, ascending, and when they are said."""


def passages(transcript: Transcript) -> Iterator[Passage]:
    """The passages of what was said, then those of its translation, if any."""
    yield from _passages(transcript, transcript.segments, translated=False)
    if any(segment.translation for segment in transcript.segments):
        spoken = {(segment.start, segment.text) for segment in transcript.segments}
        others = [
            replace(segment, language=transcript.language_out)
            for segment in translated(transcript).segments
            if (segment.start, segment.text) not in spoken
        ]
        yield from _passages(transcript, others, translated=True)


def _passages(
    transcript: Transcript, segments: Sequence[Segment], *, translated: bool
) -> Iterator[Passage]:
    rules = replace(rules_for(transcript.language), max_line_length=UNBROKEN)
    tokens = [
        replace(token, text=unicodedata.normalize("NFC", token.text))
        for token in tokens_of(segments, rules, transcript.duration)
    ]
    cuts = [0, *_cuts(tokens, segments), len(tokens)]
    for begin, end in pairwise(cuts):
        if begin == end:
            continue
        own = tokens[begin:end]
        tail = _tail(tokens, end, segments)
        yield Passage(
            text=joined([*own, *tail]),
            own=len(joined(own)),
            start=own[0].start,
            end=own[-1].end,
            language=segments[own[0].segment].language or transcript.language,
            translated=translated,
            times=tuple(_times([*own, *tail])),
        )


def _cuts(tokens: Sequence[Token], segments: Sequence[Segment]) -> Iterator[int]:
    """The first token of every passage but the first."""
    size = 0
    for place, (before, token) in enumerate(pairwise(tokens), start=1):
        size += len(before.text) + before.spaced
        changes = token.segment != before.segment
        full = size >= (USUAL_CHARACTERS if changes else MOST_CHARACTERS)
        if full or not _continues(before, token, segments):
            yield place
            size = 0


def _continues(before: Token, token: Token, segments: Sequence[Segment]) -> bool:
    """Whether a token is of the same speech as the one before."""
    same = segments[before.segment].language == segments[token.segment].language
    return same and token.start - before.end < PAUSE_MS


def _tail(tokens: Sequence[Token], end: int, segments: Sequence[Segment]) -> list[Token]:
    found: list[Token] = []
    size = 0
    for before, token in pairwise(tokens[max(0, end - 1) : end + TAIL_CHARACTERS]):
        size += len(token.text) + token.spaced
        if size > TAIL_CHARACTERS or not _continues(before, token, segments):
            break
        found.append(token)
    return found


def _times(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    place = 0
    for number, token in enumerate(tokens):
        place += token.spaced and number > 0
        yield place, token.start
        place += len(token.text)
    yield place, tokens[-1].end


def time_at(times: Sequence[tuple[int, int]], place: int) -> int:
    """When the character at a place is said; within a word by its share of the characters."""
    found = max(0, bisect_right(times, place, key=lambda one: one[0]) - 1)
    start, time = times[found]
    if found + 1 == len(times) or start == place:
        return time
    end, until = times[found + 1]
    return time + max(0, until - time) * (place - start) // (end - start)


def pack(times: Sequence[tuple[int, int]]) -> bytes:
    """Places and times as differences, seven bits to a byte."""
    packed = bytearray()
    for before, after in pairwise(((0, 0), *times)):
        for number in (after[0] - before[0], max(0, after[1] - before[1])):
            left = number
            while left > 0x7F:
                packed.append(left & 0x7F | 0x80)
                left >>= 7
            packed.append(left)
    return bytes(packed)


def unpack(packed: bytes) -> list[tuple[int, int]]:
    """The places and times of `pack`."""
    numbers, number, shift = [], 0, 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
    found, place, time = [], 0, 0
    for further, later in zip(numbers[::2], numbers[1::2], strict=True):
        place, time = place + further, time + later
        found.append((place, time))
    return found
