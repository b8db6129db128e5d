"""What the normalizer needs from an audio engine, free of gRPC and of ffmpeg."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Protocol

SAMPLE_RATE = 16_000
SAMPLE_BYTES = 2
BYTES_PER_SECOND = SAMPLE_RATE * SAMPLE_BYTES


class Target(Enum):
    """Which of the two outputs a filter touches."""

    KEPT_AUDIO = auto()
    TRANSCRIBER = auto()
    BOTH = auto()


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter as it really runs."""

    name: str
    settings: dict[str, str]
    target: Target
    option: str = ""
    """The option that asked for it; empty if the stage always does it."""

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
    """Everything the engine must know before the first byte."""

    options: Options = Options()
    keep_audio: bool = False
    max_duration: timedelta | None = None
    """Longest recording wanted; None leaves the engine's own limit."""


@dataclass(frozen=True, slots=True)
class Started:
    """What will be done; always the first event."""

    filters: tuple[Filter, ...]
    media_type: str
    """Of the kept audio; empty if none is kept."""


@dataclass(frozen=True, slots=True)
class Samples:
    """16 kHz mono s16le in order, whole samples only."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes of the kept audio file in order."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Progress:
    """How far into the recording the samples reach."""

    done: timedelta
    total: timedelta | None


@dataclass(frozen=True, slots=True)
class Finished:
    """Facts about the whole recording; always the last event."""

    duration: timedelta
    kept_bytes: int
    warnings: tuple[str, ...]


Event = Started | Samples | Kept | Progress | Finished


@dataclass(frozen=True, slots=True)
class Capability:
    """Whether one option can be honoured on this machine."""

    option: str
    why_not: str = ""
    """Empty if it can."""


class NormalizerEngine(Protocol):
    """Anything that turns the bytes of a media file into samples and audio worth keeping."""

    async def capabilities(self) -> tuple[Capability, ...]:
        """One for every option there is."""
        ...

    def normalize(
        self, chunks: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """Yields Started, then the rest while `chunks` arrive; closing it stops everything."""
        ...


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge removed, or would remove."""

    files: int
    size: int


class Storage(Protocol):
    """Whatever an engine keeps on disk."""

    async def purge(self, *, dry_run: bool = False) -> Purged:
        """Removes what no call under way needs."""
        ...


def length_of(size: int) -> timedelta:
    """How long so many bytes of samples play."""
    return timedelta(seconds=size / BYTES_PER_SECOND)
