"""Requests and events of the audio engine; free of gRPC and of ffmpeg."""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

SAMPLE_RATE = 16_000
SAMPLE_BYTES = 2
BYTES_PER_SECOND = SAMPLE_RATE * SAMPLE_BYTES


class Target(Enum):
    """Which of the two outputs a filter applies to."""

    KEPT_AUDIO = auto()
    TRANSCRIBER = auto()
    BOTH = auto()


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter as it runs."""

    name: str
    settings: dict[str, str]
    target: Target
    option: str = ""
    """The option that requested it; empty if the stage always applies it."""

    @property
    def parameters(self) -> str:
        """The settings the way ffmpeg spells them, such as "f=80"."""
        return ":".join(f"{key}={value}" for key, value in sorted(self.settings.items()))


@dataclass(frozen=True, slots=True)
class Options:
    """What to do to the audio."""

    remove_noise: bool = False
    convert_to_mono: bool = False
    apply_highpass_filter: bool = False
    set_sample_rate_16k: bool = False
    isolate_vocals: bool = False
    loudness_lufs: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What the engine must know before the first byte."""

    options: Options = Options()
    keep_audio: bool = False
    max_duration: timedelta | None = None
    """Longest recording to accept; None means the engine's own limit."""
    live_stream: bool = False
    """Whether a caller is still making the media; it takes a slot for live streams."""


@dataclass(frozen=True, slots=True)
class IsolatorInfo:
    """A voice isolator that has passed its probe."""

    engine: str
    name: str
    settings: dict[str, str]
    rate: int


@dataclass(frozen=True, slots=True)
class Started:
    """The filters that will run; always the first event."""

    filters: tuple[Filter, ...]
    media_type: str
    """Of the kept audio; empty if none is kept."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """All slots are taken."""


@dataclass(frozen=True, slots=True)
class Samples:
    """16 kHz mono s16le in order, whole samples only."""

    data: bytes


@dataclass(frozen=True, slots=True)
class KeptAudio:
    """Bytes of the kept audio file in order."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Progress:
    """How far into the recording the samples reach."""

    done: timedelta
    total: timedelta | None


@dataclass(frozen=True, slots=True)
class Finished:
    """Totals of the whole recording; always the last event."""

    duration: timedelta
    kept_audio_bytes: int
    warnings: tuple[str, ...]


Event = Started | Waiting | Samples | KeptAudio | Progress | Finished


def length_of(size: int) -> timedelta:
    """Duration of that many bytes of samples."""
    return timedelta(seconds=size / BYTES_PER_SECOND)
