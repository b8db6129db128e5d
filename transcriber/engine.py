"""What the transcriber needs from a speech engine, free of gRPC and of Whisper."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """How one recording is to be heard."""

    language: str = ""
    """BCP-47 tag; empty means detect."""

    language_out: str = ""
    """BCP-47 tag to translate into; empty means no translation."""

    word_timestamps: bool = False
    initial_prompt: str = ""
    beam_size: int = 0
    """0: as the operator set it."""

    settled_offset: timedelta = timedelta(0)
    """What ends by here is known already: it is listened to, but not put into words again."""

    next_index: int = 0
    hotwords: str = ""
    mixed_languages: bool = False
    """Tell the language of every window anew."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Who listens; always the first event."""

    model: str
    device: str
    compute_type: str


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """One word, timed from the beginning of the recording."""

    start: timedelta
    end: timedelta
    text: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Spoken:
    """Text settled between two moments of the recording."""

    index: int
    start: timedelta
    end: timedelta
    text: str
    words: tuple[SpokenWord, ...]
    confidence: float
    language: str
    settled_offset: timedelta
    """A job that is resumed from here, once this piece is stored, loses and repeats nothing."""

    translation: str = ""
    """Empty unless it was really translated."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Everything before this moment has been heard, silence included."""

    offset: timedelta


@dataclass(frozen=True, slots=True)
class Heard:
    """Facts about the whole recording; always the last event."""

    language: str
    """BCP-47 tag; empty if nothing was said and none was named."""

    language_probability: float | None
    """None unless the language was detected."""

    duration: timedelta
    speech_duration: timedelta
    language_out: str = ""
    """BCP-47 tag of the translations; empty if nothing was translated."""


Event = Ready | Spoken | Reached | Heard


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model on this machine."""

    name: str
    languages: tuple[str, ...]
    loaded: bool
    selected: bool


class SpeechEngine(Protocol):
    """Anything that turns 16 kHz mono s16le samples into text."""

    def transcribe(
        self, samples: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """Yields Ready, then Spoken in time order among Reached, then one Heard.

        Closing it stops the listening at once and frees the model for the next recording.
        """
        ...

    async def models(self) -> Sequence[ModelFacts]:
        """What could be loaded without a network, best first."""
        ...
