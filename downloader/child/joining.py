"""A recording that only comes in parts: they are put on disk, and ffmpeg makes one of them."""

import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from downloader.confinement import ForbiddenDeedError
from downloader.visitor import Refusal
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason

MAX_PARTS = 200
MAX_MEMORY_BYTES = 2 * 1024**3
LIST = "parts.txt"

DEMUXERS = "concat,aac,flac,flv,matroska,mov,mp3,mpegts,ogg,wav"
"""Real media, and our own list; a playlist in disguise would open other files and addresses."""

COMMAND = (
    *("-nostdin", "-hide_banner", "-loglevel", "error"),
    *("-protocol_whitelist", "file", "-format_whitelist", DEMUXERS),
    *("-f", "concat", "-safe", "1", "-i", LIST),
    *("-map", "0:a:0", "-c", "copy", "-f", "matroska", "pipe:1"),
)


class Writable(Protocol):
    """Where the recording goes."""

    def write(self, data: bytes) -> int:
        """Takes all of it or raises."""
        ...


def only_joining(arguments: list[str]) -> None:
    """ffmpeg is called in this one way, or not at all."""
    if tuple(arguments) != COMMAND:
        raise ForbiddenDeedError("ffmpeg only joins parts")


def set_bounds(max_bytes: int) -> None:
    """From here on: no file larger than all parts may be, and no program that eats the machine."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def join(ffmpeg: str, parts: Sequence[str], sink: Writable) -> None:
    """Writes the sound of all parts, one after the other, as one recording."""
    Path(LIST).write_text("".join(f"file {part}\n" for part in parts))
    with subprocess.Popen(  # noqa: S603 - our own command on our own files
        [ffmpeg, *COMMAND],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # The static build crashes on MPEG-TS if it finds the iconv modules of another libc.
        env={"LC_ALL": "C", "GCONV_PATH": "/nonexistent"},
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while data := process.stdout.read(MAX_FRAME_BYTES):
            sink.write(data)
    if process.returncode:
        raise Refusal(Reason.CORRUPT_MEDIA, "the parts of the recording do not fit together")
