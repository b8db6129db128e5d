"""Phrases of a window at their place in the recording."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from statistics import fmean

from transcriber.decoder import Phrase, Word
from transcriber.engine import Spoken, SpokenWord
from transcriber.listening import offset
from transcriber.windows import RATE, Window


def joints(span: Window) -> tuple[float, ...]:
    """Where in the window long pauses were left out, in seconds."""
    return tuple(at / RATE for at in span.joints)


def place(phrases: Sequence[Phrase], span: Window, language: str) -> Iterator[Spoken]:
    """Times stay in order and in the window; numbers and settled offsets are still missing."""
    quiet_from = (span.length - (span.end - span.speech_end)) / RATE
    earliest = offset(span.start)

    def placed(seconds: float, *, is_end: bool = False) -> timedelta:
        sample = span.place(max(0, round(seconds * 1000) * RATE // 1000), is_end=is_end)
        return max(offset(sample), earliest)

    for number, phrase in enumerate(_apart(phrases, joints(span))):
        text = phrase.text.strip()
        # What begins after the last speech was not said: models fill quiet with pleasantries.
        if not _has_words(text) or (number and phrase.start >= quiet_from):
            continue
        start, stop = placed(phrase.start), placed(phrase.end, is_end=True)
        words = tuple(
            SpokenWord(
                placed(word.start),
                max(placed(word.start), placed(word.end, is_end=True)),
                word.text.strip(),
                word.confidence,
            )
            for word in phrase.words
        )
        yield Spoken(
            0, start, max(start, stop), text, words, phrase.confidence, language, timedelta(0)
        )
        earliest = max(start, stop)


def _has_words(text: str) -> bool:
    """Dots and notes are what models put down where they hear no word."""
    return any(map(str.isalnum, text))


def _apart(phrases: Sequence[Phrase], joints: Sequence[float]) -> Iterator[Phrase]:
    """Cuts phrases whose words are timed where a long pause was left out."""
    for phrase in phrases:
        rest = phrase
        for joint in joints:
            if rest.words and rest.start < joint < rest.end:
                before = tuple(word for word in rest.words if _middle(word) < joint)
                after = rest.words[len(before) :]
                if before and after:
                    yield _of(before, rest.start, joint)
                rest = _of(after or before, *((joint, rest.end) if after else (rest.start, joint)))
        yield rest


def _middle(word: Word) -> float:
    return (word.start + word.end) / 2


def _of(words: Sequence[Word], start: float, end: float) -> Phrase:
    text = "".join(word.text for word in words)
    return Phrase(start, end, text, fmean(word.confidence for word in words), tuple(words))


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
