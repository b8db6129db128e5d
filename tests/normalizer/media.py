"""Media files made by a real ffmpeg, and measurements of the results."""

import asyncio
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import imageio_ffmpeg
import numpy as np
import numpy.typing as npt

from normalizer.engine import (
    BYTES_PER_SECOND,
    SAMPLE_RATE,
    Finished,
    KeptAudio,
    Progress,
    Request,
    Samples,
    Started,
)
from normalizer.ffmpeg_engine import FfmpegEngine

SECONDS = 4
TONE_HZ = 440
CHUNK = 16 * 1024

TONE = f"sine=frequency={TONE_HZ}:sample_rate=44100:duration={SECONDS}"
PICTURE = f"testsrc=size=160x120:rate=10:duration={SECONDS}"


def ffmpeg(*arguments: str, stdin: bytes = b"") -> bytes:
    """Output of the ffmpeg that our dependencies install."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", "-loglevel", "error", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout


@cache
def recording(suffix: str, *options: str, sound: str = TONE, picture: str = "") -> bytes:
    """A file of this format with this lavfi audio and, optionally, video."""
    inputs = ["-f", "lavfi", "-i", sound] if sound else []
    if picture:
        inputs += ["-f", "lavfi", "-i", picture]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"made.{suffix}"
        ffmpeg(*inputs, *options, str(path))
        return path.read_bytes()


def fast_m4a() -> bytes:
    """MP4 with its index first."""
    return recording("m4a", "-c:a", "aac", "-movflags", "+faststart")


def slow_m4a() -> bytes:
    """MP4 with its index last, as encoders write it by default."""
    return recording("m4a", "-c:a", "aac")


def late_mkv(seconds: float) -> bytes:
    """A video whose audio starts some seconds after its picture."""
    delay = ("-filter_complex", f"[0:a]asetpts=PTS+{seconds}/TB[a]", "-map", "[a]", "-map", "1:v")
    return recording("mkv", *delay, "-c:a", "flac", picture=PICTURE)


def holed_mkv(seconds: float) -> bytes:
    """Sound for 2 s, then timestamps that jump."""
    jump = f"asetpts='PTS+gte(T,2)*{seconds}/TB'"
    return recording("mkv", "-af", jump, "-c:a", "flac")


def endless_wav(limit: int) -> Iterator[bytes]:
    """A header of unknown size, then silence up to the limit."""
    unknown = 0xFFFFFFFF
    layout = struct.pack("<HHIIHH", 1, 2, 44_100, 44_100 * 4, 4, 16)
    yield b"RIFF" + struct.pack("<I", unknown) + b"WAVEfmt " + struct.pack("<I", 16) + layout
    yield b"data" + struct.pack("<I", unknown)
    for _ in range(limit // CHUNK):
        yield bytes(CHUNK)


async def sent(data: bytes, size: int = CHUNK) -> AsyncIterator[bytes]:
    """The bytes in chunks, as a caller sends them."""
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]
        await asyncio.sleep(0)


@dataclass
class Outcome:
    """All events of a call, by kind."""

    started: list[Started] = field(default_factory=list)
    samples: bytes = b""
    kept: bytes = b""
    progress: list[Progress] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return len(self.samples) / BYTES_PER_SECOND


async def normalized(
    engine: FfmpegEngine, chunks: bytes | AsyncIterator[bytes], request: Request | None = None
) -> Outcome:
    """Runs a whole call."""
    outcome = Outcome()
    stream = sent(chunks) if isinstance(chunks, bytes) else chunks
    async for event in engine.normalize(stream, request or Request()):
        match event:
            case Started():
                outcome.started.append(event)
            case Samples(data):
                outcome.samples += data
            case KeptAudio(data):
                outcome.kept += data
            case Progress():
                outcome.progress.append(event)
            case Finished():
                outcome.finished.append(event)
    return outcome


Wave = npt.NDArray[np.float64]


def wave(samples: bytes) -> Wave:
    """Samples as numbers between -1 and 1."""
    return np.frombuffer(samples, "<i2").astype(np.float64) / 32768


def decoded(audio: bytes, rate: int = SAMPLE_RATE) -> Wave:
    """A kept file decoded to mono."""
    return wave(
        ffmpeg("-i", "pipe:0", "-f", "s16le", "-ac", "1", "-ar", str(rate), "pipe:1", stdin=audio)
    )


def loudness(sound: Wave) -> float:
    """Root mean square in dB."""
    return float(20 * np.log10(np.sqrt(np.mean(sound**2)) + 1e-9))


def strength(sound: Wave, hertz: float, rate: int = SAMPLE_RATE) -> float:
    """Level of one frequency, in dB."""
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound)))) / len(sound)
    middle = round(hertz * len(sound) / rate)
    return float(20 * np.log10(spectrum[middle - 3 : middle + 4].max() + 1e-9))


def pitch(sound: Wave, rate: int = SAMPLE_RATE) -> float:
    """The strongest frequency in Hz."""
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    return float(spectrum.argmax() * rate / len(sound))


def files_in(folder: Path) -> list[str]:
    """Names of the files in the folder; none if it does not exist."""
    return [path.name for path in folder.glob("*")]
