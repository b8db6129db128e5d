"""A site that drips is given up after a while, for a reason that is retried."""

from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event

import pytest
from grpc import StatusCode

from downloader.commands import ClientOptions
from downloader.relay import MinimumRate
from downloader.ytdlp_engine import ServiceLimits, YtDlpEngine
from mesh.reasons import RETRYABLE, Reason
from mesh.scratch import Scratch
from tests.downloader.conftest import Serve
from tests.downloader.helpers import bytes_of, download, refusal
from tests.downloader.site import Answer, Site, content
from ytcaption.v1 import downloader_service_pb2 as pb


def dripping(closing: Event) -> Answer:
    """Twenty bytes a second until the client leaves."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "audio/mpeg")
        request.send_header("Content-Length", str(10**9))
        request.end_headers()
        while not closing.wait(0.05):
            request.wfile.write(b"x")
            request.wfile.flush()

    return answer


async def test_a_site_that_drips_is_given_up(serve: Serve, site: Site) -> None:
    limits = ServiceLimits(min_rate_bytes=100_000, min_rate_seconds=2)
    request = pb.DownloadRequest(source_url=site.url("/talk.mp3", dripping(site.closing)))

    async with serve(service_limits=limits) as downloader:
        events, *end = await refusal(downloader, request)

    assert end == [StatusCode.UNAVAILABLE, "SOURCE_TOO_SLOW"]
    assert events[0].HasField("media")
    assert Reason.SOURCE_TOO_SLOW in RETRYABLE


async def test_the_minimum_may_be_turned_off(serve: Serve, site: Site) -> None:
    limits = ServiceLimits(min_rate_bytes=0, min_rate_seconds=0.001)

    async with serve(service_limits=limits) as downloader:
        events = await download(downloader, site.url("/talk.mp3", content(b"sound")))

    assert bytes_of(events) == b"sound"


def test_a_caller_that_asks_for_a_slow_download_gets_one(tmp_path: Path) -> None:
    options = ClientOptions(15, max_bytes_per_second=100, request_interval_seconds=30)
    engine = YtDlpEngine(options, Scratch(tmp_path, "download-"), ServiceLimits())

    assert engine._minimum_rate(options) == MinimumRate(50, 150)


async def test_a_call_that_waits_for_a_download_slot_says_so(
    serve: Serve, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mesh.slots.REPORT_SECONDS", 0.01)
    limits = ServiceLimits(max_downloads=1)
    slow = pb.DownloadRequest(source_url=site.url("/slow.mp3", dripping(site.closing)))
    quick = pb.DownloadRequest(source_url=site.url("/talk.mp3", content(b"sound")))

    async with serve(service_limits=limits) as downloader:
        holding = downloader.Download(slow)
        assert (await anext(aiter(holding))).HasField("media")
        waiting = aiter(downloader.Download(quick))
        assert (await anext(waiting)).HasField("waiting")
        holding.cancel()
        events = [event async for event in waiting]

    assert bytes_of(events) == b"sound"
