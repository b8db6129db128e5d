"""What the streaming engine needs from a speech model: one window in, phrases out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from transcriber.vad import Audio

Task = Literal["transcribe", "translate"]


@dataclass(frozen=True, slots=True)
class Word:
    """One word, in seconds from the beginning of its window."""

    start: float
    end: float
    text: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Phrase:
    """What was said between two moments of a window, in seconds from its beginning."""

    start: float
    end: float
    text: str
    confidence: float
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class How:
    """How a window is to be decoded."""

    beam_size: int
    word_timestamps: bool = False
    initial_prompt: str = ""
    hotwords: str = ""
    task: Task = "transcribe"
    """Translation is always into English: Whisper knows no other."""
    joints: tuple[float, ...] = ()
    """Seconds at which a pause was left out: a phrase across one gets its words timed, too."""


class Decoder(Protocol):
    """A loaded model."""

    model: str
    device: str
    compute_type: str
    languages: frozenset[str]
    """Whisper's codes of what it hears."""
    translates: bool
    """Whether it was taught to put other languages into English."""
    at_once: int
    """How many threads may ask it at the same time."""

    @property
    def is_loaded(self) -> bool:
        """Whether it has its memory now; if not, it loads for the next window by itself."""
        ...

    def wake(self) -> None:
        """Returns when it is loaded."""
        ...

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> tuple[str, float]:
        """The code of the language spoken, and how sure that is."""
        ...

    def decode(
        self, audio: Audio, language: str, how: How, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order; the same for the same audio, always.

        Nobody waits for the result any more once `abandoned` says so.
        """
        ...

    def close(self) -> None:
        """Frees the model, even in the middle of a window; may be called from any thread."""
        ...
