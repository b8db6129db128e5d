"""Interface of a speech model: one window of audio in, phrases out."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Audio = npt.NDArray[np.int16]
"""Samples at 16 kHz, mono. Floats are made of them last: they take twice the memory."""

Floats = npt.NDArray[np.float32]

Task = Literal["transcribe", "translate"]

ResultT = TypeVar("ResultT")


POLL_SECONDS = 0.1
"""How often a waiting call checks whether it was abandoned."""


def to_floats(audio: Audio) -> Floats:
    """Samples between -1 and 1, as the models take them."""
    return audio.astype(np.float32) / np.float32(32_768)


class AbandonedError(Exception):
    """The caller abandoned the call; it may still be running."""


def wait_for(result: Future[ResultT], abandoned: Callable[[], bool]) -> ResultT:
    """The result of a call; raises AbandonedError once the caller no longer needs it."""
    while True:
        try:
            return result.result(POLL_SECONDS)
        except TimeoutError:
            if abandoned():
                raise AbandonedError from None


@dataclass(frozen=True, slots=True)
class Weights:
    """A model that can be loaded."""

    name: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Word:
    """One word, in seconds from the beginning of its window."""

    start: float
    end: float
    text: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Phrase:
    """Text between two times, in seconds from the beginning of its window."""

    start: float
    end: float
    text: str
    confidence: float
    words: tuple[Word, ...] = ()
    uncertain: bool = False
    """Whether the text failed the quality checks in every way it was decoded."""


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How to decode a window."""

    beam_size: int
    word_timestamps: bool = False
    initial_prompt: str = ""
    hotwords: str = ""
    task: Task = "transcribe"
    """Whisper translates into English only."""
    joints: tuple[float, ...] = ()
    """Seconds at which a pause was cut out; a phrase that spans one gets word timestamps."""
    speech: tuple[tuple[float, float], ...] = ()
    """Begin and end of each stretch of speech, in seconds; empty: all of the window."""
    greedy_first: bool = False
    """Whether a greedy decode may do where the model is sure."""
    full_length_first: bool = False
    """Whether the length Whisper was trained on comes first: the most words are right there, for
    three times the encoder's work."""
    is_urgent: bool = False
    """Whether it comes before windows that are not: a viewer waits for the first captions."""


class Decoder(Protocol):
    """A loaded model."""

    model: str
    device: str
    compute_type: str
    languages: frozenset[str]
    """Whisper's codes of the languages it transcribes."""
    translates: bool
    """Whether it was trained to translate into English."""
    concurrency: int
    """Windows of one recording that keep it busy; more threads may call it at the same time."""

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory; if not, the next window loads it."""
        ...

    def ensure_loaded(self) -> None:
        """Loads the model unless it is loaded, and returns when it is."""
        ...

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> Mapping[str, float]:
        """The probability of each language it transcribes, by code, from the first 30 seconds."""
        ...

    def decode(
        self, audio: Audio, language: str, options: DecodeOptions, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order. The same audio always gives the same phrases.

        `abandoned` returns True once the caller no longer needs the result: AbandonedError.
        """
        ...

    def close(self) -> None:
        """Frees the model, even during a decode; may be called from any thread."""
        ...
