"""What is said, and what is shown. Times are whole milliseconds from the recording's beginning."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """One spoken word."""

    start: int
    end: int
    text: str
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Text spoken between two moments, as the transcriber settled it."""

    start: int
    end: int
    text: str
    words: tuple[Word, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The whole text of a recording, or what is heard of it so far."""

    segments: tuple[Segment, ...]
    language: str = ""
    language_probability: float | None = None
    duration: int = 0
    """0 while nobody knows it."""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """What no line is broken inside of: a word, or a phrase where words have no spaces."""

    text: str
    start: int
    end: int
    width: int
    spaced: bool
    """Whether a space belongs before it when it does not begin a line."""
    segment: int
    """The segment it comes from."""
    severed: bool = False
    """Whether it is the rest of a word that was too long for a line."""
    timed: bool = False
    """Whether the transcriber gave it its time; else it was reckoned."""


@dataclass(frozen=True, slots=True)
class Cue:
    """What stands on the screen from one moment to another."""

    start: int
    end: int
    lines: tuple[str, ...]
    text: str = ""
    """The same on one line."""
    tokens: tuple[tuple[Token, ...], ...] = ()
    """What each line is made of."""


def joined(tokens: tuple[Token, ...] | list[Token]) -> str:
    """Tokens as one line of text."""
    return "".join(
        f" {token.text}" if token.spaced and place else token.text
        for place, token in enumerate(tokens)
    )
