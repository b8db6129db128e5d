"""A page costs no more memory than allowed, however small it is on the wire."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from itertools import chain, repeat

import pytest
from grpc import StatusCode

from tests.downloader.conftest import Serve
from tests.downloader.helpers import (
    Downloader,
    bytes_of,
    caption_refusal,
    download,
    refusal,
    resolve_refusal,
)
from tests.downloader.site import Answer, Site, content, redirect
from ytcaption.v1 import downloader_service_pb2 as pb

MIB = 1024**2
TOO_LARGE = [StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE"]
HTML, PLAYLIST = "text/html", "application/vnd.apple.mpegurl"
HEAD, SPACES = b"<html>" * 1024, b" " * MIB

Pieces = Callable[[], Iterator[bytes]]


def streamed(pieces: Pieces, kind: str, code: int = 200, **headers: str) -> Answer:
    """Pieces until the client leaves, without a length."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        for name, value in {"Content-Type": kind, **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        with suppress(OSError):
            for piece in pieces():
                request.wfile.write(piece)

    return answer


def page_without_end() -> Iterator[bytes]:
    return chain([HEAD], repeat(SPACES))


def bomb() -> Iterator[bytes]:
    """500 MiB of spaces in half a megabyte."""
    packer = zlib.compressobj(wbits=31)
    yield packer.compress(HEAD)
    yield from map(packer.compress, repeat(SPACES, 500))
    yield packer.flush()


def empty_blocks() -> Iterator[bytes]:
    """Compressed data without end that decompresses to nothing."""
    packer = zlib.compressobj(wbits=31)
    yield packer.compress(HEAD) + packer.flush(zlib.Z_FULL_FLUSH)
    yield from repeat(b"\0\0\0\xff\xff" * 65536)


def playlist_without_end() -> Iterator[bytes]:
    return chain([b"#EXTM3U\n"], repeat(b"#EXTINF:4,\nx.ts\n" * 10_000))


PAGES = {
    "decompresses to 500 MiB": streamed(bomb, HTML, Content_Encoding="gzip"),
    "has no end": streamed(page_without_end, HTML),
    "has no end and decompresses to nothing": streamed(empty_blocks, HTML, Content_Encoding="gzip"),
    "is a playlist without end": streamed(playlist_without_end, PLAYLIST),
    "is an error without end": streamed(page_without_end, HTML, 403),
}


@pytest.mark.parametrize("answer", PAGES.values(), ids=PAGES)
async def test_a_page_over_the_limit_is_refused(
    downloader: Downloader, site: Site, answer: Answer
) -> None:
    events, *end = await refusal(
        downloader, pb.DownloadRequest(source_url=site.url("/talk", answer))
    )

    assert end == TOO_LARGE
    assert events == []


async def test_lists_and_captions_have_the_same_limit(downloader: Downloader, site: Site) -> None:
    url = site.url("/talk", PAGES["decompresses to 500 MiB"])

    assert await resolve_refusal(downloader, pb.ResolveRequest(source_url=url)) == TOO_LARGE
    assert await caption_refusal(downloader, pb.FetchCaptionsRequest(source_url=url)) == TOO_LARGE


async def test_the_body_of_a_redirect_is_not_read(downloader: Downloader, site: Site) -> None:
    target = site.url("/talk.mp3", content(b"sound"))
    endless = streamed(page_without_end, HTML, 302, Location=target)

    events = await download(downloader, site.url("/talk", endless))

    assert bytes_of(events) == b"sound"


async def test_a_recording_may_be_larger_than_a_page(serve: Serve, site: Site) -> None:
    recording = bytes(range(256)) * 4096
    target = site.url("/talk.mp3", content(recording))

    async with serve(max_page_bytes=1024) as downloader:
        events = await download(downloader, site.url("/talk", redirect(target)))

    assert bytes_of(events) == recording


async def test_a_child_that_needs_more_memory_than_allowed_is_refused(
    serve: Serve, site: Site
) -> None:
    url = site.url("/talk", streamed(page_without_end, HTML))

    async with serve(max_page_bytes=1024**4, max_memory_bytes=400 * MIB) as downloader:
        _, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == TOO_LARGE
