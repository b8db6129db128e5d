"""A site that drips is given up after a while, for a reason that is retried."""

import threading
from http.server import BaseHTTPRequestHandler

import pytest
from grpc import StatusCode

from mesh.reasons import RETRYABLE, Reason
from tests.downloader import throttled_child
from tests.downloader.conftest import Serve
from tests.downloader.helpers import Downloader, bytes_of, download, refusal
from tests.downloader.site import Answer, Site, content, held
from ytcaption.v1 import downloader_service_pb2 as pb


def dripping(closing: threading.Event, first: bytes = b"") -> Answer:
    """Twenty bytes a second until the client leaves."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "audio/mpeg")
        request.send_header("Content-Length", str(10**7))
        request.end_headers()
        request.wfile.write(first)
        while not closing.wait(0.05):
            request.wfile.write(b"x")
            request.wfile.flush()

    return answer


@pytest.mark.parametrize("first", [b"", bytes(300_000)], ids=["at once", "after a while"])
async def test_a_site_that_drips_is_given_up(serve: Serve, site: Site, first: bytes) -> None:
    url = site.url("/talk.mp3", dripping(site.closing, first))

    async with serve(min_rate_bytes=100_000, min_rate_seconds=2) as downloader:
        events, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == [StatusCode.UNAVAILABLE, "SOURCE_TOO_SLOW"]
    assert events[0].HasField("media")
    assert Reason.SOURCE_TOO_SLOW in RETRYABLE


async def test_the_minimum_may_be_turned_off(serve: Serve, site: Site) -> None:
    async with serve(min_rate_bytes=0, min_rate_seconds=1e-9) as downloader:
        events = await download(downloader, site.url("/talk.mp3", content(b"sound")))

    assert bytes_of(events) == b"sound"


async def test_a_download_that_a_limit_of_ours_slows_down_is_not_too_slow(
    serve: Serve, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("downloader.fork_server.run_child", throttled_child.run_child)
    sound = bytes(400_000)

    limits = {"min_rate_bytes": 10_000, "min_rate_seconds": 60, "max_bytes_per_second": 50_000}
    async with serve(**limits) as downloader:
        events = await download(downloader, site.url("/talk.mp3", content(sound)))

    assert bytes_of(events) == sound


async def test_bytes_are_passed_on_before_a_whole_block_is_here(
    downloader: Downloader, site: Site
) -> None:
    sound, go_on = bytes(100_000), threading.Event()
    request = pb.DownloadRequest(source_url=site.url("/talk.mp3", held(sound, 40_000, go_on)))

    received, calling = b"", aiter(downloader.Download(request))
    while len(received) < 40_000:
        received += (await anext(calling)).chunk
    go_on.set()
    received += bytes_of([event async for event in calling])

    assert received == sound
