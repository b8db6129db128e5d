"""Media files spoiled from a seed: every container we read, in every way a file goes bad."""

import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from imageio_ffmpeg import get_ffmpeg_exe

_SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100:duration=0.6")
_PICTURE = ("-f", "lavfi", "-i", "testsrc=size=64x48:rate=10:duration=0.6")
_FIRST = ("-movflags", "+faststart")
_KINDS: dict[str, tuple[str, ...]] = {
    "plain.wav": _SOUND,
    "surround.wav": (*_SOUND, "-ac", "6"),
    "plain.flac": _SOUND,
    "plain.mp3": _SOUND,
    "plain.aac": _SOUND,
    "first.m4a": (*_SOUND, *_FIRST),
    "last.m4a": _SOUND,
    "parts.m4a": (*_SOUND, "-movflags", "frag_keyframe+empty_moov"),
    "film.mp4": (*_SOUND, *_PICTURE, *_FIRST),
    "film.mov": (*_SOUND, *_PICTURE),
    "vorbis.ogg": (*_SOUND, "-c:a", "libvorbis"),
    "plain.opus": (*_SOUND, "-c:a", "libopus"),
    "plain.webm": (*_SOUND, "-c:a", "libopus"),
    "film.mkv": (*_SOUND, *_PICTURE, "-c:a", "flac"),
    "film.ts": (*_SOUND, *_PICTURE),
    "film.avi": (*_SOUND, *_PICTURE),
    "plain.flv": _SOUND,
    "plain.wma": _SOUND,
    "plain.aiff": _SOUND,
    "plain.caf": _SOUND,
    "plain.ac3": _SOUND,
    "plain.wv": _SOUND,
}


def originals() -> dict[str, bytes]:
    """Small sound files of every kind."""
    made = {}
    with TemporaryDirectory() as folder:
        for name, options in _KINDS.items():
            path = Path(folder) / name
            command = [get_ffmpeg_exe(), "-v", "error", "-nostdin", *options, str(path)]
            subprocess.run(command, check=True, timeout=60)
            made[name] = path.read_bytes()
    return made


@dataclass(frozen=True, slots=True)
class Mutant:
    """A spoiled file, and how it came to be."""

    description: str
    data: bytes


def mutants(files: dict[str, bytes], seed: int) -> Iterator[Mutant]:
    """Spoiled files without end, the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311 # no secret
    while True:
        name = chance.choice(list(files))
        other = chance.choice(list(files))
        spoil = chance.choice(_SPOILS)
        data = spoil(chance, bytearray(files[name]), files[other])
        yield Mutant(f"{name}, {spoil.__name__.strip('_')}, {other}", bytes(data))


def _flip_bits(chance: random.Random, data: bytearray, _: bytes) -> bytearray:
    for _time in range(2 ** chance.randrange(8)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def _flip_in_header(chance: random.Random, data: bytearray, _: bytes) -> bytearray:
    for _time in range(2 ** chance.randrange(5)):
        data[chance.randrange(min(len(data), 512))] = chance.randrange(256)
    return data


def _truncate(chance: random.Random, data: bytearray, _: bytes) -> bytearray:
    return data[: chance.randrange(1, len(data))]


def _behead(chance: random.Random, data: bytearray, _: bytes) -> bytearray:
    return data[chance.randrange(1, len(data)) :]


def _splice(chance: random.Random, data: bytearray, other: bytes) -> bytearray:
    return data[: chance.randrange(1, len(data))] + other[chance.randrange(len(other)) :]


def _swap_header(chance: random.Random, data: bytearray, other: bytes) -> bytearray:
    size = min(4 ** chance.randrange(2, 7), len(data) - 1)
    return bytearray(other[:size]) + data[size:]


def _blow_up_a_number(chance: random.Random, data: bytearray, _: bytes) -> bytearray:
    at = chance.randrange(min(len(data) - 8, 4096))
    huge = chance.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4)))
    data[at : at + 4] = huge
    return data


def _blank(chance: random.Random, data: bytearray, _: bytes) -> bytearray:
    at = chance.randrange(len(data))
    size = min(chance.randrange(1, 8192), len(data) - at)
    data[at : at + size] = bytes(size)
    return data


def _insert_rubbish(chance: random.Random, data: bytearray, _: bytes) -> bytearray:
    at = chance.randrange(len(data))
    data[at:at] = chance.randbytes(chance.randrange(1, 4096))
    return data


def _repeat(chance: random.Random, data: bytearray, _: bytes) -> bytearray:
    at = chance.randrange(len(data))
    data[at:at] = data[at : at + chance.randrange(1, 8192)] * chance.randrange(1, 20)
    return data


_SPOILS: tuple[Callable[[random.Random, bytearray, bytes], bytearray], ...] = (
    _flip_bits,
    _flip_in_header,
    _truncate,
    _behead,
    _splice,
    _swap_header,
    _blow_up_a_number,
    _blank,
    _insert_rubbish,
    _repeat,
)
