"""Every bad source has its own reason, and never ends as a success."""

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import grpc
import pytest
from google.protobuf.duration import from_timedelta
from grpc import StatusCode

from mesh.status import reason_of, retry_after_of, to_error
from tests.downloader.conftest import Serve
from tests.downloader.helpers import Downloader, bytes_of, download, kinds, refusal
from tests.downloader.site import (
    Answer,
    Site,
    at_first,
    content,
    mute,
    shaky,
    status,
    truncated,
    without_length,
)
from ytcaption.v1 import downloader_service_pb2 as pb

DATA = bytes(range(256)) * 4000
PAGE = b"<!doctype html><html><head><title>Hi</title></head><body>No media here.</body></html>"
FEED = b"""<?xml version="1.0"?><rss version="2.0"><channel><title>Show</title>
<item><title>One</title><enclosure url="http://127.0.0.1:9/1.mp3" type="audio/mpeg"/></item>
<item><title>Two</title><enclosure url="http://127.0.0.1:9/2.mp3" type="audio/mpeg"/></item>
</channel></rss>"""


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        (status(401), StatusCode.FAILED_PRECONDITION, "LOGIN_REQUIRED"),
        (status(403), StatusCode.FAILED_PRECONDITION, "LOGIN_REQUIRED"),
        (status(404), StatusCode.FAILED_PRECONDITION, "VIDEO_NOT_FOUND"),
        (status(410), StatusCode.FAILED_PRECONDITION, "VIDEO_REMOVED"),
        (status(429), StatusCode.UNAVAILABLE, "RATE_LIMITED"),
        (status(451), StatusCode.FAILED_PRECONDITION, "GEO_BLOCKED"),
        (status(500), StatusCode.UNAVAILABLE, "SITE_ERROR"),
        (status(503), StatusCode.UNAVAILABLE, "SITE_ERROR"),
        (content(PAGE, "text/html"), StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_URL"),
        (content(FEED, "application/rss+xml"), StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_URL"),
        (content(b""), StatusCode.INVALID_ARGUMENT, "EMPTY_MEDIA"),
        (without_length(b""), StatusCode.INVALID_ARGUMENT, "EMPTY_MEDIA"),
    ],
)
async def test_each_answer_of_a_site_has_its_own_reason(
    downloader: Downloader, site: Site, answer: Answer, code: StatusCode, reason: str
) -> None:
    request = pb.DownloadRequest(source_url=site.url("/source.mp3", answer))

    events, *end = await refusal(downloader, request)

    assert end == [code, reason]
    assert bytes_of(events) == b""


@pytest.mark.parametrize(
    "source",
    [
        "",
        "talk",
        "talk.mp3",
        "ytsearch5:cats",
        "file:///etc/passwd",
        "ftp://example.com/a.mp3",
        "http://",
        "http:///a.mp3",
        "http://[::1/a.mp3",
        "http://example.com:99999/a.mp3",
        "http://exa mple.com/",
        "http://example.com/\nx",
    ],
)
async def test_a_source_that_is_no_http_address_is_refused_before_a_child_starts(
    downloader: Downloader, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    def no_child(*_: object) -> None:
        raise AssertionError("a child was started")

    monkeypatch.setattr("downloader.ytdlp_engine.running_child", no_child)

    _, *end = await refusal(downloader, pb.DownloadRequest(source_url=source))

    assert end == [StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_URL"]


async def test_a_name_that_does_not_resolve_is_unreachable(downloader: Downloader) -> None:
    request = pb.DownloadRequest(source_url="http://unknown.invalid/talk.mp3")

    _, *end = await refusal(downloader, request)

    assert end == [StatusCode.UNAVAILABLE, "HOST_UNREACHABLE"]


async def test_a_port_without_a_listener_is_unreachable(downloader: Downloader) -> None:
    with socket.socket() as closed:  # bound, but it never listens
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/talk.mp3"

        _, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == [StatusCode.UNAVAILABLE, "HOST_UNREACHABLE"]


async def test_a_transfer_that_stops_short_is_an_error_and_repeats_no_byte(
    downloader: Downloader, site: Site
) -> None:
    url = site.url("/talk.mp3", truncated(DATA, 600_000))

    events, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == [StatusCode.UNAVAILABLE, "NETWORK_ERROR"]
    assert 0 < len(bytes_of(events)) <= 600_000
    assert DATA.startswith(bytes_of(events))
    assert "finished" not in kinds(events)


async def test_a_connection_that_breaks_again_and_again_is_an_error(
    downloader: Downloader, site: Site
) -> None:
    url = site.url("/talk.mp3", shaky(DATA, 600_000, more=1000))

    events, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == [StatusCode.UNAVAILABLE, "NETWORK_ERROR"]
    assert DATA.startswith(bytes_of(events))


@pytest.mark.parametrize(
    ("code", "reason"),
    [(404, "VIDEO_NOT_FOUND"), (429, "RATE_LIMITED"), (503, "SITE_ERROR")],
)
async def test_an_error_after_the_metadata_request_has_the_same_reason(
    downloader: Downloader, site: Site, code: int, reason: str
) -> None:
    url = site.url("/talk.mp3", at_first(content(DATA), status(code)))

    events, _, given = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert given == reason
    assert kinds(events) == ["media"]


async def test_a_transfer_that_lacks_a_few_bytes_is_an_error_too(
    downloader: Downloader, site: Site
) -> None:
    url = site.url("/talk.mp3", truncated(DATA, len(DATA) - 50))

    _, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == [StatusCode.UNAVAILABLE, "NETWORK_ERROR"]


async def test_a_site_that_falls_silent_is_an_error(serve: Serve, site: Site) -> None:
    url = site.url("/talk.mp3", mute(site.closing))
    async with serve(socket_timeout_seconds=0.3) as downloader:
        _, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == [StatusCode.UNAVAILABLE, "NETWORK_ERROR"]


@pytest.mark.parametrize("answer", [content(DATA), without_length(DATA)])
async def test_more_bytes_than_the_limit_are_refused_with_or_without_a_declared_length(
    downloader: Downloader, site: Site, answer: Answer
) -> None:
    url = site.url("/talk.mp3", answer)

    events, *end = await refusal(downloader, pb.DownloadRequest(source_url=url, max_bytes=100_000))

    assert end == [StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE"]
    assert len(bytes_of(events)) <= 100_000


async def test_exactly_the_bytes_allowed_are_accepted(downloader: Downloader, site: Site) -> None:
    url = site.url("/talk.mp3", content(DATA))

    events = await download(downloader, url, max_bytes=len(DATA))

    assert bytes_of(events) == DATA


async def test_a_max_duration_of_zero_is_refused(downloader: Downloader) -> None:
    request = pb.DownloadRequest(
        source_url="http://example.com/", max_duration=from_timedelta(timedelta(0))
    )

    _, *end = await refusal(downloader, request)

    assert end == [StatusCode.INVALID_ARGUMENT, "REQUEST_INVALID"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120), ("9999999", 86400), ("-5", 0), ("soon", None), ("nan", None)],
)
async def test_retry_after_of_a_429_reaches_the_caller(
    downloader: Downloader, site: Site, header: str, seconds: float | None
) -> None:
    url = site.url("/talk.mp3", status(429, Retry_After=header))

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await download(downloader, url)

    assert reason_of(caught.value) == "RATE_LIMITED"
    assert retry_after_of(caught.value) == seconds
    assert to_error(caught.value).retry_after_seconds == seconds


async def test_retry_after_may_be_a_date(downloader: Downloader, site: Site) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
    url = site.url("/talk.mp3", status(429, Retry_After=later))

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await download(downloader, url)

    assert 400 < (retry_after_of(caught.value) or 0) <= 600


async def test_other_errors_carry_no_retry_delay(downloader: Downloader, site: Site) -> None:
    url = site.url("/talk.mp3", status(503))

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await download(downloader, url)

    assert retry_after_of(caught.value) is None


async def test_a_recording_without_audio_is_refused_before_its_bytes(
    downloader: Downloader, site: Site
) -> None:
    manifest = """<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT8S">
<Period><AdaptationSet mimeType="video/mp4"><Representation id="v" codecs="avc1.4d401e"
bandwidth="64000" width="64" height="64"><SegmentList duration="4"><SegmentURL media="0.mp4"/>
</SegmentList></Representation></AdaptationSet></Period></MPD>"""
    url = site.url("/mute.mpd", content(manifest.encode(), "application/dash+xml"))

    events, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == [StatusCode.INVALID_ARGUMENT, "NO_AUDIO"]
    assert events == []
    assert site.hits == ["/mute.mpd"]
