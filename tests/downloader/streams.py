"""Streams made by ffmpeg, and the audio it decodes from a file."""

import subprocess
from pathlib import Path

from imageio_ffmpeg import get_ffmpeg_exe

SECONDS = 6
SOUND = ["-f", "lavfi", "-i", f"sine=frequency=440:duration={SECONDS}"]
PICTURE = ["-f", "lavfi", "-i", f"testsrc=size=64x64:rate=5:duration={SECONDS}"]


def ffmpeg(folder: Path, *arguments: str) -> None:
    command = [get_ffmpeg_exe(), "-v", "error", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def hls(folder: Path, *more: str) -> str:
    ffmpeg(folder, *SOUND, "-c:a", "aac", "-hls_time", "2", "-hls_list_size", "0", *more, "a.m3u8")
    return "a.m3u8"


def encrypted_hls(folder: Path) -> str:
    (folder / "secret.key").write_bytes(bytes(range(16)))
    (folder / "key.info").write_text("secret.key\nsecret.key\n")
    return hls(folder, "-hls_key_info_file", "key.info")


def dash(folder: Path) -> str:
    tracks = ["-map", "0", "-map", "1", "-c:v", "mpeg4", "-c:a", "aac"]
    ffmpeg(folder, *PICTURE, *SOUND, *tracks, "-seg_duration", "2", "-f", "dash", "a.mpd")
    return "a.mpd"


def merged(folder: Path) -> str:
    ffmpeg(folder, *PICTURE, *SOUND, "-c:v", "mpeg4", "-c:a", "aac", "a.mp4")
    return "a.mp4"


def audio_in(file: Path) -> tuple[float, bool]:
    """Seconds of audio in the file, and whether it has video."""
    # The static build crashes on MPEG-TS if it finds the iconv modules of another libc.
    command = [get_ffmpeg_exe(), "-i", str(file), "-map", "0:a", "-f", "s16le", "-ar", "8000"]
    environment = {"GCONV_PATH": "/nonexistent"}
    done = subprocess.run(
        [*command, "-ac", "1", "-"], env=environment, capture_output=True, check=True
    )
    return len(done.stdout) / 16000, b"Video:" in done.stderr.split(b"Output #0")[0]
