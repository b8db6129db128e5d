"""What the normalizer makes of a spoiled recording, option by option."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np

from benchmarks.mixing import RATE, Wave
from benchmarks.recording import piped_ffmpeg
from mesh.frames import MAX_FRAME_BYTES
from normalizer.capabilities import CapabilityProbe
from normalizer.engine import SAMPLE_RATE, KeptAudio, Options, Request, Samples
from normalizer.ffmpeg_engine import FfmpegEngine, RecordingLimits
from normalizer.processes import ProcessLimits
from normalizer.spool import Spool
from normalizer.voice_isolator import DEFAULT

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
        process_limits = ProcessLimits(memory=2**31, cpu_seconds=3600)
        limits = RecordingLimits(timedelta(hours=1), stall_seconds=60, process=process_limits)
        capabilities = CapabilityProbe("", DEFAULT, process_limits)
        self._engine = FfmpegEngine(capabilities, limits, Spool(folder, 2**30), 1, 1)

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
            elif isinstance(event, KeptAudio):
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
    return piped_ffmpeg(media, *shape, "-i", "pipe:0", *output)
