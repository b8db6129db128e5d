"""Finds the words of a query in a passage, and cuts the part of it that is shown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orchestrator.search.query import Query, Term
from orchestrator.search.words import Word, words

SNIPPET_CHARACTERS = 200
LEAD_CHARACTERS = 60
"""At most so many before the first match."""
MAX_MATCHES = 20
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Match:
    """A place in the passage, and the number of the term that is there."""

    start: int
    end: int
    term: int


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a passage, with the ranges of it that match."""

    text: str
    matches: tuple[tuple[int, int], ...]
    place: int
    """Where the first match is in the passage."""


def matches_of(query: Query, text: str) -> list[Match]:
    """Every place where a wanted term is, in order."""
    found = list(words(text))
    places: dict[str, list[int]] = {}
    for place, word in enumerate(found):
        places.setdefault(word.text, []).append(place)
    every = (
        match
        for number, term in enumerate(query.wanted)
        for match in _matches(term, number, found, places)
    )
    return sorted(every, key=lambda match: (match.start, match.end))


def _matches(
    term: Term, number: int, found: Sequence[Word], places: dict[str, list[int]]
) -> Iterator[Match]:
    for begin in _beginnings(term, places):
        there = found[begin : begin + len(term.words)]
        if len(there) == len(term.words) and all(
            _is(wanted, word, beginning=term.prefix and place + 1 == len(term.words))
            for place, (wanted, word) in enumerate(zip(term.words, there, strict=True))
        ):
            end = there[-1].start + term.width if term.width else there[-1].end
            yield Match(there[0].start, end, number)


def _beginnings(term: Term, places: dict[str, list[int]]) -> Iterable[int]:
    """Where the first word of a term is."""
    first = term.words[0]
    if len(term.words) > 1 or not term.prefix:
        return places.get(first, ())
    return sorted(
        place for text, where in places.items() if text.startswith(first) for place in where
    )


def _is(wanted: str, word: Word, *, beginning: bool) -> bool:
    return word.text.startswith(wanted) if beginning else word.text == wanted


def snippet(text: str, own: int, found: Sequence[Match]) -> Snippet | None:
    """The part with most of the terms; None if no match begins in the passage itself.

    What begins in the tail is found in the next passage, too.
    """
    begins = [place for place, match in enumerate(found) if match.start < own]
    if not begins:
        return None
    best, most = begins[0], (0, 0)
    until, inside = 0, Counter[int]()
    for place in begins:
        limit = found[place].start + SNIPPET_CHARACTERS - LEAD_CHARACTERS
        while until < len(found) and found[until].end <= limit:
            inside[found[until].term] += 1
            until += 1
        count = (len(+inside), inside.total())
        if count > most:
            best, most = place, count
        if until > place:
            inside[found[place].term] -= 1
        else:
            until = place + 1
    return _cut(text, found[best:])


def _cut(text: str, found: Sequence[Match]) -> Snippet:
    first = found[0]
    begin = _word_start(text, max(0, first.start - LEAD_CHARACTERS), first.start)
    end = _word_end(text, max(first.end, begin + SNIPPET_CHARACTERS), first.end)
    lead = ELLIPSIS if begin else ""
    shift = len(lead) - begin
    inside = [match for match in found if match.end <= end][:MAX_MATCHES] or [first]
    return Snippet(
        text=lead + text[begin:end] + (ELLIPSIS if end < len(text) else ""),
        matches=tuple(_merged((one.start + shift, one.end + shift) for one in inside)),
        place=first.start,
    )


def _word_start(text: str, place: int, latest: int) -> int:
    """The first beginning of a word from a place on; the place where there are no spaces."""
    if place == 0:
        return 0
    space = text.find(" ", place - 1, latest)
    return place if space < 0 else space + 1


def _word_end(text: str, place: int, earliest: int) -> int:
    if place >= len(text):
        return len(text)
    space = text.rfind(" ", earliest, place + 1)
    return place if space < 0 else space


def _merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Overlapping ranges as one; they come in order."""
    current: tuple[int, int] | None = None
    for start, end in ranges:
        if current and start < current[1]:
            current = current[0], max(current[1], end)
            continue
        if current:
            yield current
        current = start, end
    if current:
        yield current
