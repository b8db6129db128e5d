"""Joins a recording that comes in several parts: ffmpeg concatenates the files on disk."""

import resource
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from downloader.child.confinement import ForbiddenActionError
from downloader.child.ytdlp_client import Refusal
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason

MAX_PARTS = 200
MAX_MEMORY_BYTES = 2 * 1024**3
LIST = "parts.txt"

DEMUXERS = "concat,aac,flac,flv,matroska,mov,mp3,mpegts,ogg,wav"
"""Media formats and our own concat list. A disguised playlist would open other files and URLs."""

COMMAND = (
    *("-nostdin", "-hide_banner", "-loglevel", "error"),
    *("-protocol_whitelist", "file", "-format_whitelist", DEMUXERS),
    *("-f", "concat", "-safe", "1", "-i", LIST),
    *("-map", "0:a:0", "-c", "copy", "-f", "matroska", "pipe:1"),
)


def check_ffmpeg_arguments(arguments: list[str]) -> None:
    """Allows exactly the ffmpeg call that joins parts."""
    if tuple(arguments) != COMMAND:
        raise ForbiddenActionError("ffmpeg may only join parts")


def limit_resources(max_bytes: int) -> None:
    """Limits the size of every file and the memory of every program started from here on."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def join(ffmpeg: str, parts: Sequence[str], write: Callable[[bytes], int]) -> None:
    """Writes the audio of all parts, one after the other, as one recording."""
    Path(LIST).write_text("".join(f"file {part}\n" for part in parts))
    with subprocess.Popen(  # noqa: S603 - a fixed command on files we wrote
        [ffmpeg, *COMMAND],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # The static build crashes on MPEG-TS if it finds the iconv modules of another libc.
        env={"LC_ALL": "C", "GCONV_PATH": "/nonexistent"},
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while data := process.stdout.read(MAX_FRAME_BYTES):
            write(data)
    if process.returncode:
        raise Refusal(Reason.CORRUPT_MEDIA, "the parts of the recording do not fit together")
