"""A call that waits for a slot of the downloader says so."""

import threading

import pytest

from downloader.ytdlp_engine import ServiceLimits
from tests.downloader.conftest import Serve
from tests.downloader.helpers import bytes_of
from tests.downloader.site import Site, content, held
from ytcaption.v1 import downloader_service_pb2 as pb


async def test_a_download_that_waits_for_a_slot_says_so(
    serve: Serve, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mesh.slots.REPORT_SECONDS", 0.01)
    slow = pb.DownloadRequest(source_url=site.url("/slow", held(b"slow", 2, threading.Event())))
    quick = pb.DownloadRequest(source_url=site.url("/talk.mp3", content(b"sound")))

    async with serve(service_limits=ServiceLimits(max_downloads=1)) as downloader:
        holding = downloader.Download(slow)
        await holding.read()
        waiting = aiter(downloader.Download(quick))
        assert (await anext(waiting)).HasField("waiting")
        holding.cancel()
        events = [event async for event in waiting]

    assert bytes_of(events) == b"sound"
