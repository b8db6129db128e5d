"""HLS and DASH, piece by piece: whole, in order, and nothing left on the disk."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.duration import from_timedelta
from grpc import StatusCode

from tests.downloader.helpers import Downloader, bytes_of, download, files_in, kinds, refusal
from tests.downloader.site import Answer, Site, content, held
from ytcaption.v1 import downloader_service_pb2 as pb

PIECES = [bytes([number]) * 200_000 for number in (1, 2, 3)]


def playlist(*names: str, end: str = "#EXT-X-ENDLIST", key: str = "") -> Answer:
    entries = "".join(f"#EXTINF:4.0,\n{name}\n" for name in names)
    text = f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n{key}\n{entries}{end}\n"
    return content(text.encode(), "application/vnd.apple.mpegurl")


@pytest.fixture
def stream(site: Site) -> str:
    for number, piece in enumerate(PIECES):
        site.url(f"/{number}.ts", content(piece, "video/mp2t"))
    return site.url("/talk.m3u8", playlist("0.ts", "1.ts", "2.ts"))


async def test_media_segments_are_sent_in_order(
    downloader: Downloader, stream: str, tmp_path: Path
) -> None:
    events = await download(downloader, stream)

    assert bytes_of(events) == b"".join(PIECES)
    assert events[0].media.duration.ToTimedelta() == timedelta(seconds=12)
    assert kinds(events)[-1] == "finished"
    assert files_in(tmp_path) == []


DASH = """<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT8S">
<Period><AdaptationSet mimeType="audio/mp4">
<Representation id="a" codecs="mp4a.40.2" bandwidth="64000">
<SegmentList duration="4"><Initialization sourceURL="0.ts"/><SegmentURL media="1.ts"/>
<SegmentURL media="2.ts"/></SegmentList></Representation></AdaptationSet></Period></MPD>"""


async def test_dash_comes_through_in_order(
    downloader: Downloader, site: Site, stream: str, tmp_path: Path
) -> None:
    url = site.url("/talk.mpd", content(DASH.encode(), "application/dash+xml"))

    events = await download(downloader, url)

    assert bytes_of(events) == b"".join(PIECES)
    assert files_in(tmp_path) == []


async def test_the_first_media_segment_is_sent_before_the_second_exists(
    downloader: Downloader, site: Site, stream: str
) -> None:
    go_on = threading.Event()
    site.answers["/1.ts"] = held(PIECES[1], 1, go_on)
    got = b""
    async for event in downloader.Download(pb.DownloadRequest(source_url=stream)):
        got += event.chunk
        if got and not go_on.is_set():
            assert PIECES[0].startswith(got)
            go_on.set()

    assert got == b"".join(PIECES)


async def test_a_missing_media_segment_fails_the_download(
    downloader: Downloader, site: Site, stream: str, tmp_path: Path
) -> None:
    del site.answers["/1.ts"]

    events, code, reason = await refusal(downloader, pb.DownloadRequest(source_url=stream))

    assert (code, reason) == (StatusCode.FAILED_PRECONDITION, "VIDEO_NOT_FOUND")
    assert bytes_of(events) in (b"", PIECES[0])
    assert files_in(tmp_path) == []


async def test_a_stream_without_an_end_is_live_and_refused(
    downloader: Downloader, site: Site, stream: str
) -> None:
    site.answers["/talk.m3u8"] = playlist("0.ts", "1.ts", end="")

    events, *end = await refusal(downloader, pb.DownloadRequest(source_url=stream))

    assert end == [StatusCode.FAILED_PRECONDITION, "LIVE_STREAM"]
    assert events == []


async def test_a_recording_longer_than_asked_for_is_refused_before_its_bytes(
    downloader: Downloader, site: Site, stream: str
) -> None:
    request = pb.DownloadRequest(
        source_url=stream, max_duration=from_timedelta(timedelta(seconds=11))
    )

    events, *end = await refusal(downloader, request)

    assert end == [StatusCode.RESOURCE_EXHAUSTED, "TOO_LONG"]
    assert events == []
    assert "/0.ts" not in site.hits


async def test_bytes_are_counted_over_all_pieces(downloader: Downloader, stream: str) -> None:
    events, *end = await refusal(
        downloader, pb.DownloadRequest(source_url=stream, max_bytes=300_000)
    )

    assert end == [StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE"]
    assert len(bytes_of(events)) <= 300_000


async def test_a_protected_stream_is_refused(
    downloader: Downloader, site: Site, stream: str
) -> None:
    key = '#EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://x",KEYFORMAT="com.apple.streamingkeydelivery"'
    site.answers["/talk.m3u8"] = playlist("0.ts", key=key)

    _, *end = await refusal(downloader, pb.DownloadRequest(source_url=stream))

    assert end == [StatusCode.FAILED_PRECONDITION, "DRM_PROTECTED"]


async def test_encryption_yt_dlp_would_hand_to_ffmpeg_is_refused(
    downloader: Downloader, site: Site, stream: str
) -> None:
    site.answers["/talk.m3u8"] = playlist(
        "0.ts", key=f'#EXT-X-KEY:METHOD=SAMPLE-AES,URI="{site.url("/key")}"'
    )

    _, *end = await refusal(downloader, pb.DownloadRequest(source_url=stream))

    assert end == [StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_URL"]
    assert "/key" not in site.hits
