"""What ffmpeg makes of real sound, HLS and DASH, arrives as something ffmpeg can hear again."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from imageio_ffmpeg import get_ffmpeg_exe

from tests.downloader.helpers import Downloader, bytes_of, download
from tests.downloader.site import Site, content

SECONDS = 6
SOUND = ["-f", "lavfi", "-i", f"sine=frequency=440:duration={SECONDS}"]
PICTURE = ["-f", "lavfi", "-i", f"testsrc=size=64x64:rate=5:duration={SECONDS}"]
TYPES = {".m3u8": "application/vnd.apple.mpegurl", ".mpd": "application/dash+xml"}


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


MAKERS: dict[str, Callable[[Path], str]] = {
    "HLS": hls,
    "HLS in fragmented MP4": lambda folder: hls(folder, "-hls_segment_type", "fmp4"),
    "HLS with a key": encrypted_hls,
    "DASH": dash,
    "picture and sound in one file": merged,
}


def heard(file: Path) -> tuple[float, bool]:
    """Seconds of sound in it, and whether there is a picture."""
    # The static build crashes on MPEG-TS if it finds the iconv modules of another libc.
    command = [get_ffmpeg_exe(), "-i", str(file), "-map", "0:a", "-f", "s16le", "-ar", "8000"]
    calm = {"GCONV_PATH": "/nonexistent"}
    done = subprocess.run([*command, "-ac", "1", "-"], env=calm, capture_output=True, check=True)
    return len(done.stdout) / 16000, b"Video:" in done.stderr.split(b"Output #0")[0]


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_stream_of_ffmpeg_comes_through_whole(
    downloader: Downloader, site: Site, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    start = MAKERS[kind](folder)
    for file in folder.iterdir():
        site.url(f"/{file.name}", content(file.read_bytes(), TYPES.get(file.suffix, "video/mp4")))

    events = await download(downloader, site.url(f"/{start}"))

    got = folder / "got"
    got.write_bytes(bytes_of(events))
    seconds, has_picture = heard(got)
    assert seconds == pytest.approx(SECONDS, abs=0.2)
    assert has_picture is (kind == "picture and sound in one file")
