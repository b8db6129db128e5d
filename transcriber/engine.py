"""What the transcriber needs from a speech engine, free of gRPC and of Whisper."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
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


class Phase(Enum):
    """What a model may still need."""

    FETCHING = auto()
    """Its weights come from the hub."""

    LOADING = auto()
    """Its weights are here and go into memory."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """The model cannot listen yet; nothing but this comes before Ready."""

    model: str
    """Empty until it is chosen."""

    phase: Phase
    done_bytes: int = 0
    total_bytes: int | None = None
    """None while nobody knows."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Who listens; the first event but for Preparing."""

    model: str
    device: str
    compute_type: str
    translation_model: str = ""
    """Empty if none is needed, or the speech model translates itself."""


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


Event = Preparing | Ready | Spoken | Reached | Heard


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model on this machine."""

    name: str
    languages: tuple[str, ...]
    loaded: bool
    selected: bool


@dataclass(frozen=True, slots=True)
class TranslationFacts:
    """Languages a model translates: each of the first into each of the others."""

    model: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelState:
    """How the model jobs get is."""

    model: str
    loaded: bool
    preparing: Preparing | None
    """None if nothing is under way."""


class SpeechEngine(Protocol):
    """Anything that turns 16 kHz mono s16le samples into text."""

    def transcribe(
        self, samples: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """Preparing while it must, Ready, then Spoken in time order among Reached, one Heard.

        Closing it stops the listening at once and frees the model for the next recording.
        """
        ...

    def state(self) -> ModelState:
        """What the model still needs; known at once, whatever is under way."""
        ...

    def translations(self) -> Sequence[TranslationFacts]:
        """What can be translated now, the preferred way first; nothing until all is loaded."""
        ...

    async def models(self) -> Sequence[ModelFacts]:
        """What could be loaded without a network, best first."""
        ...
