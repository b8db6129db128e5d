"""Real HLS and DASH streams made by ffmpeg arrive whole and decodable."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.downloader.helpers import Downloader, bytes_of, download
from tests.downloader.site import Site, content
from tests.downloader.streams import SECONDS, audio_in, dash, encrypted_hls, hls, merged

TYPES = {".m3u8": "application/vnd.apple.mpegurl", ".mpd": "application/dash+xml"}
MAKERS: dict[str, Callable[[Path], str]] = {
    "HLS": hls,
    "HLS in fragmented MP4": lambda folder: hls(folder, "-hls_segment_type", "fmp4"),
    "HLS with a key": encrypted_hls,
    "DASH": dash,
    "picture and sound in one file": merged,
}


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
    seconds, has_picture = audio_in(got)
    assert seconds == pytest.approx(SECONDS, abs=0.2)
    assert has_picture is (kind == "picture and sound in one file")
