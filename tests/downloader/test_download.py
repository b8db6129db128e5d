"""A recording comes through whole, in order, and while it is still arriving."""

import asyncio
import random
import threading
from datetime import timedelta
from pathlib import Path

from tests.downloader.helpers import Downloader, bytes_of, download, files_in, kinds, refusal
from tests.downloader.site import (
    Site,
    content,
    held,
    redirect,
    shaky,
    without_length,
)
from ytcaption.v1 import downloader_service_pb2 as pb

DATA = random.Random(7).randbytes(1_500_000)  # noqa: S311 - not a secret


async def test_media_comes_first_finished_last_and_every_byte_between(
    downloader: Downloader, site: Site
) -> None:
    events = await download(downloader, site.url("/talk.mp3", content(DATA)))

    names = kinds(events)
    assert names[0] == "media"
    assert names[-1] == "finished"
    assert set(names[1:-1]) == {"chunk", "progress"}
    assert bytes_of(events) == DATA
    assert events[-1].finished.size_bytes == len(DATA)


async def test_no_chunk_is_over_64_kib(downloader: Downloader, site: Site) -> None:
    events = await download(downloader, site.url("/talk.mp3", content(DATA)))

    assert 0 < max(len(event.chunk) for event in events) <= 64 * 1024


async def test_progress_only_rises_and_ends_at_the_total(
    downloader: Downloader, site: Site
) -> None:
    events = await download(downloader, site.url("/talk.mp3", content(DATA)))

    seen = 0
    moved = []
    for event in events:
        seen += len(event.chunk)
        if event.HasField("progress"):
            assert event.progress.done_bytes == seen
            moved.append(event.progress)
    assert moved[-1].done_bytes == moved[-1].total_bytes == len(DATA)
    assert moved[-1].remaining.ToTimedelta() == timedelta(0)


async def test_a_plain_file_has_its_file_name_as_title(downloader: Downloader, site: Site) -> None:
    url = site.url("/archive/A%20long%20talk.mp3", content(DATA))

    media = (await download(downloader, url))[0].media

    assert (media.title, media.container, media.extractor) == ("A long talk", "mp3", "generic")
    assert (media.media_id, media.upload_date, media.webpage_url) == ("", "", url)
    assert not media.HasField("duration")


async def test_the_first_bytes_arrive_before_the_source_has_sent_the_rest(
    downloader: Downloader, site: Site
) -> None:
    go_on = threading.Event()
    request = pb.DownloadRequest(source_url=site.url("/slow.mp3", held(DATA, 200_000, go_on)))
    got = b""
    async for event in downloader.Download(request):
        got += event.chunk
        if got and not go_on.is_set():
            assert len(got) <= 200_000
            go_on.set()

    assert got == DATA


async def test_a_file_of_unknown_length_comes_through(downloader: Downloader, site: Site) -> None:
    events = await download(downloader, site.url("/talk.mp3", without_length(DATA)))

    assert bytes_of(events) == DATA
    assert kinds(events)[-1] == "finished"


async def test_a_redirect_is_followed(downloader: Downloader, site: Site) -> None:
    target = site.url("/real.mp3", content(DATA))

    events = await download(downloader, site.url("/short", redirect(target)))

    assert bytes_of(events) == DATA


async def test_a_broken_connection_is_resumed_without_losing_or_repeating_a_byte(
    downloader: Downloader, site: Site
) -> None:
    events = await download(downloader, site.url("/talk.mp3", shaky(DATA, 500_000)))

    assert bytes_of(events) == DATA
    assert site.hits.count("/talk.mp3") == 3  # metadata, the first part, the rest


async def test_text_that_claims_to_be_audio_is_for_the_normalizer_to_refuse(
    downloader: Downloader, site: Site
) -> None:
    text = b"these are words, not sounds\n" * 100

    assert bytes_of(await download(downloader, site.url("/words.mp3", content(text)))) == text


async def test_two_downloads_at_once_do_not_mix(downloader: Downloader, site: Site) -> None:
    both = threading.Barrier(2)
    sources = {"/a.mp3": DATA, "/b.mp3": DATA[::-1]}

    async def one(path: str) -> bytes:
        go_on = threading.Event()
        url = site.url(path, held(sources[path], 100_000, go_on))
        got = b""
        async for event in downloader.Download(pb.DownloadRequest(source_url=url)):
            got += event.chunk
            if got and not go_on.is_set():
                # Neither goes on before the other has begun.
                await asyncio.to_thread(both.wait, 120)
                go_on.set()
        return got

    first, second = await asyncio.gather(one("/a.mp3"), one("/b.mp3"))
    assert first == sources["/a.mp3"]
    assert second == sources["/b.mp3"]


async def test_a_download_leaves_no_file_whether_it_succeeds_or_fails(
    downloader: Downloader, site: Site, tmp_path: Path
) -> None:
    await download(downloader, site.url("/talk.mp3", content(DATA)))
    await refusal(downloader, pb.DownloadRequest(source_url=site.url("/missing.mp3")))

    assert files_in(tmp_path) == []
