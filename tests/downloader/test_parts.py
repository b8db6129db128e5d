"""A recording that only comes in parts is spooled, within limits, and sent as one."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import pytest
from grpc import StatusCode
from imageio_ffmpeg import get_ffmpeg_exe

from downloader.ytdlp_engine import ServiceLimits
from tests.downloader import multi_part_site
from tests.downloader.conftest import Serve
from tests.downloader.helpers import Downloader, bytes_of, download, files_in, kinds, refusal
from tests.downloader.site import Site, content, mute, status
from tests.downloader.streams import SECONDS, audio_in, merged
from tests.support.polling import until
from tests.support.processes import Newborn
from ytcaption.v1 import downloader_service_pb2 as pb


@pytest.fixture(autouse=True)
def known_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("downloader.fork_server.run_child", multi_part_site.run_child)


@pytest.fixture
async def joining(serve: Serve) -> AsyncIterator[Downloader]:
    async with serve(ffmpeg=get_ffmpeg_exe()) as downloader:
        yield downloader


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("part")
    return (folder / merged(folder)).read_bytes()


def film(site: Site, *parts: bytes) -> str:
    lines = [site.url(f"/{n}.mp4", content(data, "video/mp4")) for n, data in enumerate(parts)]
    return site.url("/film.parts", content("\n".join(lines).encode(), "text/plain"))


async def test_the_parts_become_one_recording(
    joining: Downloader,
    site: Site,
    part: bytes,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    events = await download(joining, film(site, part, part, part))

    assert files_in(tmp_path) == []
    assert kinds(events)[0] == "media"
    assert kinds(events)[-1] == "finished"
    assert (events[0].media.title, events[0].media.media_id) == ("A film in parts", "film")
    got = tmp_path_factory.mktemp("got") / "film"
    got.write_bytes(bytes_of(events))
    seconds, has_picture = audio_in(got)
    assert seconds == pytest.approx(3 * SECONDS, abs=0.5)
    assert not has_picture


async def test_the_spool_is_bounded_over_all_parts(serve: Serve, site: Site, part: bytes) -> None:
    service_limits = ServiceLimits(max_spool_bytes=len(part) * 3 // 2)
    async with serve(ffmpeg=get_ffmpeg_exe(), service_limits=service_limits) as downloader:
        request = pb.DownloadRequest(source_url=film(site, part, part, part))
        events, *end = await refusal(downloader, request)

    assert end == [StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE"]
    assert bytes_of(events) == b""
    assert "/2.mp4" not in site.hits


async def test_a_missing_part_fails_the_download_before_its_first_byte(
    joining: Downloader, site: Site, part: bytes
) -> None:
    url = film(site, part, part)
    site.answers["/1.mp4"] = status(404)

    events, *end = await refusal(joining, pb.DownloadRequest(source_url=url))

    assert end == [StatusCode.FAILED_PRECONDITION, "VIDEO_NOT_FOUND"]
    assert bytes_of(events) == b""


async def test_a_part_that_is_a_playlist_in_disguise_opens_nothing(
    joining: Downloader, site: Site, part: bytes
) -> None:
    target = site.url("/secret.ts", content(b"secret"))
    disguised = f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{target}\n#EXT-X-ENDLIST\n"
    url = film(site, disguised.encode(), part)

    _, code, _ = await refusal(joining, pb.DownloadRequest(source_url=url))

    assert code is StatusCode.INVALID_ARGUMENT
    assert "/secret.ts" not in site.hits


async def test_a_recording_in_parts_is_refused_without_ffmpeg(
    serve: Serve, site: Site, part: bytes
) -> None:
    async with serve() as downloader:
        _, *end = await refusal(downloader, pb.DownloadRequest(source_url=film(site, part)))

    assert end == [StatusCode.UNIMPLEMENTED, "TOOL_MISSING"]


async def test_cancelling_leaves_no_process_and_no_part(
    joining: Downloader,
    site: Site,
    part: bytes,
    tmp_path: Path,
    newborn: Newborn,
) -> None:
    url = film(site, part, part)
    site.answers["/1.mp4"] = mute(site.closing)
    call = joining.Download(pb.DownloadRequest(source_url=url))
    reading = asyncio.ensure_future(_to_the_end(call))
    await until(lambda: "/1.mp4" in site.hits)

    call.cancel()

    await until(lambda: not newborn() and files_in(tmp_path) == [])
    with pytest.raises(asyncio.CancelledError):
        await reading


async def _to_the_end(call: AsyncIterable[pb.DownloadResponse]) -> None:
    async for _ in call:
        pass
