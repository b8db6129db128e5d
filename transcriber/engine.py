"""Interface of a speech engine and its events, free of gRPC and of Whisper."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """How to transcribe one recording."""

    language: str = ""
    """BCP-47 tag; empty means detect."""

    language_out: str = ""
    """BCP-47 tag to translate into; empty means no translation."""

    word_timestamps: bool = False
    initial_prompt: str = ""
    beam_size: int = 0
    """0: the configured default."""

    settled_offset: timedelta = timedelta(0)
    """Windows that end by here are already transcribed: they are read, but not decoded again."""

    next_index: int = 0
    hotwords: str = ""
    mixed_languages: bool = False
    """Detect the language of every window."""

    languages: tuple[str, ...] = ()
    """BCP-47 tags detection chooses among; empty: every language of the model."""

    live: bool = False
    """The audio may arrive slowly: captions do not wait for later audio."""

    live_stream: bool = False
    """Whether a caller is still making the audio; it takes a slot for live streams."""


class Phase(Enum):
    """What a model is waiting for."""

    FETCHING = auto()
    """The hub is sending its weights."""

    LOADING = auto()
    """Its weights are on disk and go into memory."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """The model is not ready yet; only this event comes before Started."""

    model: str
    """Empty until it is chosen."""

    phase: Phase
    done_bytes: int = 0
    total_bytes: int | None = None
    """None while unknown."""


@dataclass(frozen=True, slots=True)
class Started:
    """Names the models in use; the first event except for Preparing."""

    model: str
    device: str
    compute_type: str
    translation_model: str = ""
    """Empty if no translation is needed or the speech model translates."""


@dataclass(frozen=True, slots=True)
class TimedWord:
    """One word, timed from the beginning of the recording."""

    start: timedelta
    end: timedelta
    text: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Segment:
    """Final text between two times of the recording."""

    index: int
    start: timedelta
    end: timedelta
    text: str
    words: tuple[TimedWord, ...]
    confidence: float
    language: str
    settled_offset: timedelta
    """A job resumed from here, with this segment stored, loses and repeats nothing."""

    translation: str = ""
    """Empty if it was not translated."""

    uncertain: bool = False
    """Whether the text failed the quality checks in every way it was decoded."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything before this offset is transcribed, silence included."""

    offset: timedelta


@dataclass(frozen=True, slots=True)
class Finished:
    """Summary of the whole recording; always the last event."""

    language: str
    """BCP-47 tag; empty if there was no speech and the request named no language."""

    language_probability: float | None
    """Among the languages of the request, if it names some; None unless it was detected."""

    duration: timedelta
    speech_duration: timedelta
    language_out: str = ""
    """BCP-47 tag of the translations; empty if there are none."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """All slots are taken."""


Event = Preparing | Started | Waiting | Segment | Progress | Finished


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model on this machine."""

    name: str
    languages: tuple[str, ...]
    loaded: bool
    selected: bool


@dataclass(frozen=True, slots=True)
class TranslationInfo:
    """Languages a model translates: each source into each target."""

    model: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelState:
    """State of the selected model."""

    model: str
    loaded: bool
    preparing: Preparing | None
    """None if it is not being fetched or loaded."""


class SpeechEngine(Protocol):
    """Anything that turns 16 kHz mono s16le samples into text."""

    def transcribe(
        self, samples: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """Preparing until loaded, Started, then Segment in time order and Progress, then Finished.

        Closing it stops decoding at once and frees the model for the next recording.
        """
        ...

    def state(self) -> ModelState:
        """State of the model; answers at once, also while it loads."""
        ...

    def translations(self) -> Sequence[TranslationInfo]:
        """Available translations, the preferred model first; empty until all models are loaded."""
        ...

    async def models(self) -> Sequence[ModelInfo]:
        """Models that load without a network, best first."""
        ...
