"""Recordings with their references: decoded beforehand, and joined to longer ones."""

import random
import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.recording import run_ffmpeg

RATE = 16_000
SAMPLE_BYTES = 2
BYTES_A_SECOND = RATE * SAMPLE_BYTES
PAUSE_SECONDS = 0.7
"""Between two recordings that were joined."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Samples as the transcriber takes them, and what is said in them."""

    name: str
    path: Path
    """16 kHz mono s16le, without a header."""
    seconds: float
    reference: str
    language: str = ""
    """As Whisper names it; empty until somebody has listened."""

    @classmethod
    def of(cls, path: Path, name: str, reference: str, language: str = "") -> "Recording":
        """What a file of samples holds."""
        return cls(name, path, path.stat().st_size / BYTES_A_SECOND, reference, language)


def load_samples(path: str) -> NDArray[np.float32]:
    """The samples of a recording as Whisper takes them, from -1 to 1."""
    return np.fromfile(path, np.int16).astype(np.float32) / np.float32(32_768)


def write_wav(samples: Path) -> Path:
    """The samples of a recording as a WAV file beside them, for those who want a media file."""
    target = samples.with_suffix(".wav")
    with wave.open(str(target), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(SAMPLE_BYTES)
        file.setframerate(RATE)
        file.writeframes(samples.read_bytes())
    return target


def decode_folder(folder: Path, work: Path) -> list[Recording]:
    """Every file of a folder that has a reference of the same name in .txt beside it."""
    media = (path for path in sorted(folder.iterdir()) if path.suffix != ".txt")
    paired = [path for path in media if path.with_suffix(".txt").is_file()]
    return [Recording.of(_decode(path, work), path.name, _reference(path)) for path in paired]


def _reference(media: Path) -> str:
    path = media.with_suffix(".txt")
    text = path.read_text(encoding="utf-8").strip()
    if not text:
        raise ValueError(f"{path} is empty")
    return text


def _decode(path: Path, work: Path) -> Path:
    target = work / f"{path.name}.s16le"
    run_ffmpeg("-i", path, "-vn", "-ac", "1", "-ar", str(RATE), "-f", "s16le", target)
    return target


def order_of(lengths: Sequence[float], seconds: float, seed: int) -> list[int]:
    """Which to join, one after another, until there are enough seconds; each as often as any."""
    rng = random.Random(seed)  # noqa: S311 # to be repeatable, not secret
    order: list[int] = []
    for number in _shuffled_for_ever(len(lengths), rng):
        order.append(number)
        if sum(lengths[n] for n in order) + PAUSE_SECONDS * (len(order) - 1) >= seconds:
            return order
    raise AssertionError("unreachable")


def _shuffled_for_ever(count: int, rng: random.Random) -> Iterator[int]:
    while True:
        yield from rng.sample(range(count), count)


def join(recordings: Sequence[Recording], target: Path, seconds: float, seed: int = 1) -> Recording:
    """A recording of at least that many seconds, made of whole ones in one language."""
    order = order_of([recording.seconds for recording in recordings], seconds, seed)
    pause = bytes(round(PAUSE_SECONDS * RATE) * SAMPLE_BYTES)
    with target.open("wb") as file:
        for position, number in enumerate(order):
            file.write(pause if position else b"")
            file.write(recordings[number].path.read_bytes())
    reference = " ".join(recordings[number].reference for number in order)
    return Recording.of(target, target.stem, reference, recordings[0].language)
