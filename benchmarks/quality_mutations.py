"""Mutations of clips: padded, faster, quieter, narrower, noisier, cut or joined.

The same samples always give the same variant.
"""

import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.asr_recordings import RATE
from benchmarks.mixing import Wave, mixed, pink, white
from benchmarks.quality_corpus import Clip, Samples
from benchmarks.recording import piped_ffmpeg, run_ffmpeg

PLAIN = "plain"
CUT = "cut"
JOINED = "joined"
SILENCES = (0.1, 0.5, 1.0, 2.0)
TEMPOS = (0.9, 1.1)
SNR_DECIBELS = 10.0
GAIN_DECIBELS = -20.0
KEPT_SHARE = 0.65
JOIN_SECONDS = 0.4
FRAME = RATE // 50
"""Samples whose loudness says whether a place is inside speech."""
FULL_SCALE = 32_768

RAW = ("-f", "s16le", "-ar", str(RATE), "-ac", "1")


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A clip with one mutation, or none."""

    clip: str
    mutation: str
    language: str
    reference: str | None
    is_language_known: bool
    samples: Samples
    kept: float = 1.0
    """Share of the clip that is left; the reference is always that of the whole clip."""

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.samples) / RATE


def silence(seconds: float) -> Samples:
    """Digital silence."""
    return np.zeros(round(seconds * RATE), np.int16)


def tempo(samples: Samples, factor: float) -> Samples:
    """Faster or slower at the same pitch."""
    return _filtered(samples, f"atempo={factor}")


def gain(samples: Samples, decibels: float) -> Samples:
    """Louder or quieter."""
    return _to_samples(_to_wave(samples) * 10 ** (decibels / 20))


def telephone(samples: Samples) -> Samples:
    """300 to 3400 Hz at 8 kHz, and back to 16 kHz."""
    return _filtered(samples, f"highpass=f=300,lowpass=f=3400,aresample=8000,aresample={RATE}")


def mp3(samples: Samples, bitrate: str = "32k") -> Samples:
    """Encoded as MP3 and decoded."""
    # In a file: the encoder must seek to write its delay, or the decoder would not remove it.
    with tempfile.TemporaryDirectory(prefix="ytcaption-mp3-") as folder:
        raw, encoded = Path(folder, "clip.s16le"), Path(folder, "clip.mp3")
        raw.write_bytes(samples.tobytes())
        run_ffmpeg(*RAW, "-i", raw, "-c:a", "libmp3lame", "-b:a", bitrate, encoded)
        return np.frombuffer(piped_ffmpeg(b"", "-i", encoded, *RAW, "pipe:1"), np.int16)


def noisy(samples: Samples, noise: Callable[[int, int], Wave], decibels: float) -> Samples:
    """With noise, so many decibels below the mean power of the clip."""
    seed = zlib.crc32(samples.tobytes())
    return _to_samples(mixed(_to_wave(samples), noise(len(samples), seed), decibels))


def cut_place(samples: Samples) -> int:
    """The place inside speech that is nearest to 65 % of the clip."""
    frames = _to_wave(samples[: len(samples) // FRAME * FRAME]).reshape(-1, FRAME)
    if not len(frames):
        return round(KEPT_SHARE * len(samples))
    strength = np.sqrt(np.mean(frames**2, axis=1))
    loud = strength >= 0.5 * np.sqrt(np.mean(frames**2))
    inside = loud.copy()
    inside[1:] &= loud[:-1]
    inside[:-1] &= loud[1:]
    places = np.flatnonzero(inside) * FRAME + FRAME // 2
    wanted = round(KEPT_SHARE * len(samples))
    return int(places[np.argmin(np.abs(places - wanted))]) if len(places) else wanted


def _filtered(samples: Samples, filters: str) -> Samples:
    command = (*RAW, "-i", "pipe:0", "-af", filters, *RAW, "pipe:1")
    return np.frombuffer(piped_ffmpeg(samples.tobytes(), *command), np.int16)


def _to_wave(samples: Samples) -> npt.NDArray[np.float64]:
    return samples.astype(np.float64) / FULL_SCALE


def _to_samples(wave: Wave) -> Samples:
    return np.clip(np.rint(wave * FULL_SCALE), -FULL_SCALE, FULL_SCALE - 1).astype(np.int16)


def _before(seconds: float) -> Callable[[Samples], Samples]:
    return lambda samples: np.concatenate([silence(seconds), samples])


def _after(seconds: float) -> Callable[[Samples], Samples]:
    return lambda samples: np.concatenate([samples, silence(seconds)])


def _tempo(factor: float) -> Callable[[Samples], Samples]:
    return lambda samples: tempo(samples, factor)


SOUND: Mapping[str, Callable[[Samples], Samples]] = {
    **{f"silence-before-{seconds:g}": _before(seconds) for seconds in SILENCES},
    **{f"silence-after-{seconds:g}": _after(seconds) for seconds in SILENCES},
    **{f"tempo-{factor:g}": _tempo(factor) for factor in TEMPOS},
    "gain-20dB": lambda samples: gain(samples, GAIN_DECIBELS),
    "telephone": telephone,
    "mp3-32k": mp3,
    "white-10dB": lambda samples: noisy(samples, white, SNR_DECIBELS),
    "pink-10dB": lambda samples: noisy(samples, pink, SNR_DECIBELS),
}
"""Mutations of the sound alone: what is said stays the same."""
MUTATIONS = (*SOUND, CUT, JOINED)


def partner_of(clip: Clip, clips: Sequence[Clip]) -> Clip:
    """The next clip of the same language; the clip itself if it is the only one."""
    same = [other for other in clips if other.language == clip.language]
    return same[(same.index(clip) + 1) % len(same)]


def make_variant(clip: Clip, mutation: str, partner: Clip) -> Variant:
    """One clip with one mutation; the partner follows it if they are joined."""
    samples, reference, kept = clip.samples, clip.reference, 1.0
    if mutation in SOUND:
        samples = SOUND[mutation](samples)
    elif mutation == CUT:
        samples = samples[: cut_place(samples)]
        kept = len(samples) / max(1, len(clip.samples))
    elif mutation == JOINED:
        samples = np.concatenate([samples, silence(JOIN_SECONDS), partner.samples])
        reference = _joined_reference(clip.reference, partner.reference)
    return Variant(
        clip.name, mutation, clip.language, reference, clip.is_language_known, samples, kept
    )


def _joined_reference(first: str | None, second: str | None) -> str | None:
    if first is None or second is None:
        return None
    return f"{first} {second}".strip()


def plan(clips: Sequence[Clip], mutations: Sequence[str]) -> list[Callable[[], Variant]]:
    """Makers of variants: of every clip as it is, and with each mutation."""
    return [
        partial(make_variant, clip, mutation, partner_of(clip, clips))
        for clip in clips
        for mutation in (PLAIN, *mutations)
    ]
