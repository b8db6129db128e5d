"""Maps phrases of a window to segments with times in the recording."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from statistics import fmean

from transcriber.decoder import Phrase, Word
from transcriber.engine import Segment, TimedWord
from transcriber.speech.listener import offset
from transcriber.speech.referee import has_speech
from transcriber.speech.windows import RATE, Window


def joints(span: Window) -> tuple[float, ...]:
    """Where long pauses were cut out of the window, in seconds."""
    return tuple(at / RATE for at in span.joints)


def place(phrases: Sequence[Phrase], span: Window, language: str) -> Iterator[Segment]:
    """Segments in order and within the window; the caller sets index and settled offset."""
    speech = span.speech_spans
    earliest = offset(span.start)

    def placed(seconds: float, *, is_end: bool = False) -> timedelta:
        sample = span.place(max(0, round(seconds * 1000) * RATE // 1000), is_end=is_end)
        return max(offset(sample), earliest)

    for number, phrase in enumerate(_apart(phrases, joints(span))):
        text = phrase.text.strip()
        # Text without speech is hallucinated: models fill silence with pleasantries.
        if not _has_words(text) or (number and not has_speech((phrase.start, phrase.end), speech)):
            continue
        start, stop = placed(phrase.start), placed(phrase.end, is_end=True)
        words = tuple(
            TimedWord(
                placed(word.start),
                max(placed(word.start), placed(word.end, is_end=True)),
                word.text.strip(),
                word.confidence,
            )
            for word in phrase.words
        )
        yield Segment(
            0,
            start,
            max(start, stop),
            text,
            words,
            phrase.confidence,
            language,
            timedelta(0),
            uncertain=phrase.uncertain,
        )
        earliest = max(start, stop)


def _has_words(text: str) -> bool:
    """Models write dots and notes where there are no words."""
    return any(map(str.isalnum, text))


def _apart(phrases: Sequence[Phrase], joints: Sequence[float]) -> Iterator[Phrase]:
    """Splits phrases that have word timestamps where a long pause was cut out."""
    for phrase in phrases:
        rest = phrase
        for joint in joints:
            if rest.words and rest.start < joint < rest.end:
                before = tuple(word for word in rest.words if _middle(word) < joint)
                after = rest.words[len(before) :]
                if before and after:
                    yield _part(rest, before, rest.start, joint)
                times = (joint, rest.end) if after else (rest.start, joint)
                rest = _part(rest, after or before, *times)
        yield rest


def _middle(word: Word) -> float:
    return (word.start + word.end) / 2


def _part(phrase: Phrase, words: Sequence[Word], start: float, end: float) -> Phrase:
    """Some of a phrase's words."""
    text = "".join(word.text for word in words)
    confidence = fmean(word.confidence for word in words)
    return replace(
        phrase, start=start, end=end, text=text, confidence=confidence, words=tuple(words)
    )


def add_translations(segments: Sequence[Segment], translated: Sequence[Segment]) -> list[Segment]:
    """Assigns each translated phrase to the segment it overlaps most."""
    texts: list[list[str]] = [[] for _ in segments]
    for phrase in translated if segments else ():
        longest = max(range(len(segments)), key=lambda number: _overlap(segments[number], phrase))
        texts[longest].append(phrase.text)
    return [
        replace(segment, translation=" ".join(text))
        for segment, text in zip(segments, texts, strict=True)
    ]


def _overlap(one: Segment, other: Segment) -> timedelta:
    """Overlap of two segments; negative if they are apart."""
    return min(one.end, other.end) - max(one.start, other.start)
