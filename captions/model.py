"""The data model: spoken segments, shown cues. Times are milliseconds from the start."""

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Word:
    """One spoken word."""

    start: int
    end: int
    text: str
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Text spoken between two times, as the transcriber settled it."""

    start: int
    end: int
    text: str
    words: tuple[Word, ...] = ()
    confidence: float | None = None
    language: str = ""
    translation: str = ""
    """The text in another language; empty if it was not translated, or with a neighbour."""
    uncertain: bool = False
    """Whether the text failed the transcriber's quality checks in every way it was decoded."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The transcript of a recording, or its part so far."""

    segments: tuple[Segment, ...]
    language: str = ""
    language_probability: float | None = None
    duration: int = 0
    """0 if it is not known yet."""
    model: str = ""
    language_out: str = ""
    """Language of the translations; empty if there are none."""


def translated(transcript: Transcript) -> Transcript:
    """The transcript in the other language; speech already in that language is unchanged."""
    segments = tuple(_translated_segments(transcript))
    return replace(transcript, segments=segments, language=transcript.language_out)


def _translated_segments(transcript: Transcript) -> Iterator[Segment]:
    """A segment without a translation was translated with a neighbour, which gets its time too."""
    waiting: Segment | None = None
    start: int | None = None
    for segment in transcript.segments:
        unchanged = segment.text if segment.language == transcript.language_out else ""
        text = segment.translation or unchanged
        if text:
            if waiting is not None:
                yield waiting
            begin = segment.start if start is None else start
            waiting, start = Segment(begin, segment.end, text), None
        elif waiting is not None:
            waiting = replace(waiting, end=max(waiting.end, segment.end))
        else:
            start = segment.start if start is None else start
    if waiting is not None:
        yield waiting


@dataclass(frozen=True, slots=True)
class Token:
    """A unit that is never broken across lines: a word, or a phrase in unspaced scripts."""

    text: str
    start: int
    end: int
    width: int
    spaced: bool
    """Whether a space precedes it unless it begins a line."""
    segment: int
    """The segment it comes from."""
    severed: bool = False
    """Whether it is the rest of a word that was too long for a line."""
    timed: bool = False
    """Whether its time comes from the transcriber; else it is estimated."""


@dataclass(frozen=True, slots=True)
class Cue:
    """Text on the screen from one time to another."""

    start: int
    end: int
    lines: tuple[str, ...]
    text: str = ""
    """The text on one line."""
    tokens: tuple[tuple[Token, ...], ...] = ()
    """The tokens of each line."""


def joined(tokens: tuple[Token, ...] | list[Token]) -> str:
    """Tokens as one line of text."""
    return "".join(
        f" {token.text}" if token.spaced and place else token.text
        for place, token in enumerate(tokens)
    )
