"""What the normalizer makes of a spoiled recording, option by option."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
from imageio_ffmpeg import get_ffmpeg_exe

from benchmarks.mixing import RATE, Wave
from mesh.frames import MAX_FRAME_BYTES
from normalizer.abilities import Abilities
from normalizer.child import Ceiling
from normalizer.engine import SAMPLE_RATE, Kept, Options, Request, Samples
from normalizer.ffmpeg import FfmpegNormalizer, Limits
from normalizer.isolator import DEFAULT
from normalizer.spool import Spool

NOTHING = "nothing"
TREATMENTS: dict[str, Options] = {
    NOTHING: Options(),
    "highpass": Options(apply_highpass_filter=True),
    "remove_noise": Options(remove_noise=True),
    "isolate_vocals": Options(isolate_vocals=True),
    "highpass + remove_noise": Options(apply_highpass_filter=True, remove_noise=True),
    "isolate_vocals + remove_noise": Options(isolate_vocals=True, remove_noise=True),
}


@dataclass(frozen=True, slots=True)
class Treated:
    """Both outputs of the normalizer, as samples a model could hear."""

    samples: Wave
    """What the transcriber gets."""
    kept: Wave
    """What a person gets, and every filter has touched."""


class Normalizer:
    """The real engine."""

    def __init__(self, folder: Path) -> None:
        ceiling = Ceiling(memory=2**31, cpu_seconds=3600)
        limits = Limits(timedelta(hours=1), stall_seconds=60, ceiling=ceiling)
        abilities = Abilities("", DEFAULT, ceiling)
        self._engine = FfmpegNormalizer(abilities, limits, Spool(folder, 2**30), 1)

    def treat(self, sound: Wave, options: Options) -> Treated:
        """Runs one recording through."""
        return asyncio.run(self._treat(sound, options))

    async def _treat(self, sound: Wave, options: Options) -> Treated:
        media = _ffmpeg(sound_bytes(sound), "-f", "flac", "pipe:1", raw=RATE)
        samples, kept = bytearray(), bytearray()
        request = Request(options, keep_audio=True)
        async for event in self._engine.normalize(frames(media), request):
            if isinstance(event, Samples):
                samples += event.data
            elif isinstance(event, Kept):
                kept += event.data
        return Treated(_wave(bytes(samples)), decoded(bytes(kept), SAMPLE_RATE))


async def frames(media: bytes) -> AsyncIterator[bytes]:
    """As a caller sends it."""
    for begin in range(0, len(media), MAX_FRAME_BYTES):
        yield media[begin : begin + MAX_FRAME_BYTES]


def decoded(media: bytes, rate: int) -> Wave:
    """Any media as mono samples."""
    return _wave(_ffmpeg(media, "-f", "s16le", "-ac", "1", "-ar", str(rate), "pipe:1"))


def sound_bytes(sound: Wave) -> bytes:
    """As 16-bit samples."""
    return (sound * 32_767).astype("<i2").tobytes()


def _wave(samples: bytes) -> Wave:
    return np.frombuffer(samples, "<i2").astype(np.float64) / 32_768


def _ffmpeg(media: bytes, *output: str, raw: int = 0) -> bytes:
    shape = ("-f", "s16le", "-ar", str(raw), "-ac", "1") if raw else ()
    command = [get_ffmpeg_exe(), "-v", "error", *shape, "-i", "pipe:0", *output]
    return subprocess.run(command, input=media, capture_output=True, check=True).stdout
