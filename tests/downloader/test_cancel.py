"""Cancelling a call stops its download: the child is gone, whatever it waits for."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from downloader.ytdlp_engine import ServiceLimits
from tests.downloader.conftest import Serve
from tests.downloader.helpers import Downloader, files_in, refusal
from tests.downloader.site import Answer, Site, endless, held, mute
from tests.support.polling import until
from tests.support.processes import Newborn
from ytcaption.v1 import downloader_service_pb2 as pb

DATA = b"\1" * 1_000_000


def silent_from_the_start(site: Site) -> Answer:
    return mute(site.closing)


def silent_in_the_middle(site: Site) -> Answer:
    return held(DATA, 100_000, site.closing)


@pytest.mark.parametrize("make", [silent_from_the_start, silent_in_the_middle])
async def test_cancelling_the_call_kills_the_child_though_its_socket_hangs(
    downloader: Downloader,
    site: Site,
    newborn: Newborn,
    tmp_path: Path,
    make: Callable[[Site], Answer],
) -> None:
    call = downloader.Download(pb.DownloadRequest(source_url=site.url("/talk.mp3", make(site))))
    reading = asyncio.ensure_future(_read_all(call))
    await until(lambda: bool(newborn()) and bool(site.hits))

    call.cancel()

    await until(lambda: not newborn())
    await until(lambda: files_in(tmp_path) == [])
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_cancelling_kills_a_suspended_child_too(
    downloader: Downloader, site: Site, newborn: Newborn
) -> None:
    call = downloader.Download(
        pb.DownloadRequest(source_url=site.url("/talk.mp3", mute(site.closing)))
    )
    reading = asyncio.ensure_future(_read_all(call))
    await until(lambda: bool(newborn()) and bool(site.hits))
    for child in newborn():
        child.suspend()

    call.cancel()

    await until(lambda: not newborn())
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_an_expired_call_kills_the_child(
    downloader: Downloader, site: Site, newborn: Newborn
) -> None:
    request = pb.DownloadRequest(source_url=site.url("/talk.mp3", mute(site.closing)))
    for seconds in (1, 5, 25):  # on a busy machine a child may take longer to start
        call = downloader.Download(request, timeout=seconds)
        reading = asyncio.ensure_future(_read_all(call))
        await until(lambda reading=reading: bool(newborn()) or reading.done())
        if newborn():
            break

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await reading

    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: not newborn())


async def test_a_failed_download_leaves_no_child(
    downloader: Downloader, site: Site, newborn: Newborn
) -> None:
    await refusal(downloader, pb.DownloadRequest(source_url=site.url("/missing.mp3")))

    await until(lambda: not newborn())


async def test_a_child_that_dies_by_itself_is_an_error(
    downloader: Downloader, site: Site, newborn: Newborn
) -> None:
    url = site.url("/talk.mp3", held(DATA, 100_000, site.closing))
    refused = asyncio.ensure_future(refusal(downloader, pb.DownloadRequest(source_url=url)))
    await until(lambda: len(site.hits) == 2 and bool(newborn()))

    for child in newborn():
        child.kill()

    _, *end = await refused
    assert end == [grpc.StatusCode.UNAVAILABLE, "INTERNAL"]


async def test_a_caller_who_does_not_read_holds_the_source_back(
    downloader: Downloader, site: Site
) -> None:
    sent: list[int] = []
    url = site.url("/endless.mp3", endless(sent, site.closing))
    call = downloader.Download(pb.DownloadRequest(source_url=url))
    await call.read()
    standing = 0
    # No time limit: poll until nothing has been sent for a second.
    while standing < 10:
        before = len(sent)
        await asyncio.sleep(0.1)
        standing = standing + 1 if len(sent) == before else 0
        assert sum(sent) < 48 * 1024**2, "the download continues although the caller does not read"
    call.cancel()


async def test_calls_beyond_the_limit_wait_for_a_free_slot(
    serve: Serve, site: Site, newborn: Newborn
) -> None:
    go_on = threading.Event()
    url = site.url("/talk.mp3", held(DATA, 100_000, go_on))
    async with serve(service_limits=ServiceLimits(max_downloads=4)) as downloader:
        calls = [downloader.Download(pb.DownloadRequest(source_url=url)) for _ in range(6)]
        reading = [asyncio.ensure_future(_read_all(call)) for call in calls]
        await until(lambda: len(site.hits) == 8)  # metadata and media of each

        assert len(newborn()) == 4
        go_on.set()
        assert await asyncio.gather(*reading) == [len(DATA)] * 6


async def _read_all(call: grpc.aio.UnaryStreamCall[pb.DownloadRequest, pb.DownloadResponse]) -> int:
    return sum([len(event.chunk) async for event in call])
