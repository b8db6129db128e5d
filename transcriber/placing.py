"""Phrases of a window at their place in the recording."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from transcriber.decoder import Phrase
from transcriber.engine import Spoken, SpokenWord
from transcriber.listening import offset
from transcriber.windows import RATE, Window


def place(phrases: Sequence[Phrase], span: Window, language: str) -> Iterator[Spoken]:
    """Times stay in order and in the window; numbers and settled offsets are still missing."""
    begin, end = offset(span.start), offset(span.end)
    quiet_from = (span.speech_end - span.start) / RATE
    earliest = begin

    def placed(seconds: float) -> timedelta:
        moment = begin + timedelta(milliseconds=round(seconds * 1000))
        return min(max(moment, earliest), end)

    for number, phrase in enumerate(phrases):
        text = phrase.text.strip()
        # What begins after the last speech was not said: models fill quiet with pleasantries.
        if not text or (number and phrase.start >= quiet_from):
            continue
        start, stop = placed(phrase.start), placed(phrase.end)
        words = tuple(
            SpokenWord(placed(word.start), placed(word.end), word.text.strip(), word.confidence)
            for word in phrase.words
        )
        yield Spoken(
            0, start, max(start, stop), text, words, phrase.confidence, language, timedelta(0)
        )
        earliest = max(start, stop)


def add_translations(spoken: Sequence[Spoken], translated: Sequence[Spoken]) -> list[Spoken]:
    """Gives each translated phrase to the piece it was said with for the longest time."""
    texts: list[list[str]] = [[] for _ in spoken]
    for phrase in translated if spoken else ():
        longest = max(range(len(spoken)), key=lambda number: _together(spoken[number], phrase))
        texts[longest].append(phrase.text)
    return [
        replace(piece, translation=" ".join(text))
        for piece, text in zip(spoken, texts, strict=True)
    ]


def _together(one: Spoken, other: Spoken) -> timedelta:
    """Negative: how far apart they are."""
    return min(one.end, other.end) - max(one.start, other.start)
