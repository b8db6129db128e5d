"""Resolve lists recordings as they are found, within limits, and fetches none."""

import asyncio
from datetime import timedelta

import grpc
import pytest
from grpc import StatusCode

from downloader.ytdlp_engine import ServiceLimits
from tests.downloader.conftest import Serve
from tests.downloader.helpers import Downloader, bytes_of, download, resolve_refusal
from tests.downloader.site import Answer, Site, content, mute, status
from tests.support.polling import until
from tests.support.processes import Newborn
from ytcaption.v1 import downloader_service_pb2 as pb

Resolving = grpc.aio.UnaryStreamCall[pb.ResolveRequest, pb.ResolveResponse]

WORDS = content(b"<html>words</html>", "text/html")
DAYS = ["30 Sep 2025", "01 Oct 2025", "31 Oct 2025", "01 Nov 2025"]


def feed(site: Site, days: list[str | None]) -> Answer:
    items = "".join(
        f"""<item><title>Talk {number}</title><guid>id-{number}</guid>
{f"<pubDate>{day} 12:00:00 +0000</pubDate>" if day else ""}
<itunes:duration>1:0{number % 10}</itunes:duration>
<enclosure url="{site.url(f"/{number}.mp3")}" type="audio/mpeg"/></item>"""
        for number, day in enumerate(days)
    )
    xml = f"""<?xml version="1.0"?>
<rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd">
<channel><title>Talks</title>{items}</channel></rss>"""
    return content(xml.encode(), "application/rss+xml")


async def resolve(stub: Downloader, url: str, **wanted: object) -> list[pb.ResolveResponse]:
    request = pb.ResolveRequest(source_url=url, **wanted)  # type: ignore[arg-type]
    return [each async for each in stub.Resolve(request)]


async def one(call: Resolving) -> pb.ResolveResponse:
    found = await call.read()
    assert isinstance(found, pb.ResolveResponse)
    return found


async def test_a_feed_becomes_its_recordings_and_none_is_fetched(
    downloader: Downloader, site: Site
) -> None:
    found = await resolve(downloader, site.url("/feed.xml", feed(site, list(DAYS))))

    assert [each.source_url for each in found] == [site.url(f"/{n}.mp3") for n in range(4)]
    second = found[1].media
    assert (second.title, second.media_id, second.upload_date, second.extractor) == (
        "Talk 1",
        "id-1",
        "2025-10-01",
        "generic",
    )
    assert second.duration.ToTimedelta() == timedelta(seconds=61)
    assert site.hits == ["/feed.xml"]


async def test_each_listed_recording_can_be_downloaded_from_its_address(
    downloader: Downloader, site: Site
) -> None:
    site.url("/0.mp3", content(b"sound"))
    found = await resolve(downloader, site.url("/feed.xml", feed(site, ["01 Oct 2025"])))

    assert bytes_of(await download(downloader, found[0].source_url)) == b"sound"


async def test_a_page_with_several_videos_becomes_these(downloader: Downloader, site: Site) -> None:
    videos = "".join(f'<video><source src="/{n}.mp4" type="video/mp4"></video>' for n in "ab")
    page = content(f"<html><title>Two</title>{videos}</html>".encode(), "text/html")

    found = await resolve(downloader, site.url("/page", page))

    assert [each.source_url for each in found] == [site.url("/a.mp4"), site.url("/b.mp4")]


async def test_a_single_recording_is_a_list_of_one(downloader: Downloader, site: Site) -> None:
    url = site.url("/talk.mp3", content(b"sound" * 1000))

    found = await resolve(downloader, url)

    assert [each.source_url for each in found] == [url]
    assert found[0].media.title == "talk"


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"period": "2025-10"}, [1, 2]),
        ({"period": "2025"}, [0, 1, 2, 3]),
        ({"period": "2025-10-31"}, [2]),
        ({"period": "2024"}, []),
        ({"period": "2025-10/2025-11"}, [1, 2, 3]),
        ({"period": "2024/2025-09"}, [0]),
        ({"from_date": "2025-10-31"}, [2, 3]),
        ({"to_date": "2025-09-30"}, [0]),
        ({"from_date": "2025-10-01", "to_date": "2025-10-31", "max_videos": 1}, [1]),
    ],
)
async def test_only_recordings_of_the_requested_days_are_listed(
    downloader: Downloader, site: Site, wanted: dict[str, object], numbers: list[int]
) -> None:
    url = site.url("/feed.xml", feed(site, list(DAYS)))

    found = await resolve(downloader, url, **wanted)

    assert [each.media.title for each in found] == [f"Talk {n}" for n in numbers]


async def test_a_recording_without_a_day_is_looked_up_and_skipped_if_it_has_none(
    downloader: Downloader, site: Site
) -> None:
    site.url("/0.mp3", content(b"sound"))
    url = site.url("/feed.xml", feed(site, [None, "01 Oct 2025", None]))

    found = await resolve(downloader, url, period="2025-10")

    assert [each.media.title for each in found] == ["Talk 1"]
    assert site.hits == ["/feed.xml", "/0.mp3", "/2.mp3"]  # the last is gone; the listing goes on


async def test_a_rate_limit_in_the_middle_ends_the_listing(
    downloader: Downloader, site: Site
) -> None:
    site.url("/0.mp3", status(429))
    url = site.url("/feed.xml", feed(site, [None, "01 Oct 2025"]))

    end = await resolve_refusal(downloader, pb.ResolveRequest(source_url=url, period="2025"))

    assert end == [StatusCode.UNAVAILABLE, "RATE_LIMITED"]


async def test_reaching_the_callers_limit_is_no_error(downloader: Downloader, site: Site) -> None:
    url = site.url("/feed.xml", feed(site, list(DAYS)))

    assert len(await resolve(downloader, url, max_videos=2)) == 2


@pytest.mark.parametrize("asked", [0, 9])
async def test_exceeding_the_services_limit_fails_after_the_allowed_recordings(
    serve: Serve, site: Site, asked: int
) -> None:
    url = site.url("/feed.xml", feed(site, list(DAYS)))
    async with serve(service_limits=ServiceLimits(max_videos=3)) as downloader:
        call = downloader.Resolve(pb.ResolveRequest(source_url=url, max_videos=asked))
        got = [await one(call) for _ in range(3)]
        assert await resolve_refusal(
            downloader, pb.ResolveRequest(source_url=url, max_videos=asked)
        ) == [StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE"]
        assert len(await resolve(downloader, url, max_videos=3)) == 3

    assert [each.media.title for each in got] == ["Talk 0", "Talk 1", "Talk 2"]


async def test_the_number_of_entries_looked_at_is_limited(serve: Serve, site: Site) -> None:
    url = site.url("/feed.xml", feed(site, list(DAYS)))
    async with serve(service_limits=ServiceLimits(max_entries=3)) as downloader:
        end = await resolve_refusal(downloader, pb.ResolveRequest(source_url=url, period="2024"))

    assert end == [StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE"]


async def test_the_first_recording_is_sent_before_the_last_is_looked_up(
    downloader: Downloader, site: Site
) -> None:
    site.url("/1.mp3", mute(site.closing))
    url = site.url("/feed.xml", feed(site, ["01 Oct 2025", None]))
    call = downloader.Resolve(pb.ResolveRequest(source_url=url, period="2025-10"))

    first = await one(call)

    assert first.media.title == "Talk 0"
    call.cancel()


async def test_cancelling_kills_the_child(
    downloader: Downloader, site: Site, newborn: Newborn
) -> None:
    call = downloader.Resolve(
        pb.ResolveRequest(source_url=site.url("/feed.xml", mute(site.closing)))
    )
    reading = asyncio.ensure_future(call.read())
    await until(lambda: bool(newborn()) and bool(site.hits))

    call.cancel()

    await until(lambda: not newborn())
    with pytest.raises(asyncio.CancelledError):
        await reading


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (status(404), [StatusCode.FAILED_PRECONDITION, "VIDEO_NOT_FOUND"]),
        (status(503), [StatusCode.UNAVAILABLE, "SITE_ERROR"]),
        (WORDS, [StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_URL"]),
    ],
)
async def test_a_failed_listing_has_its_reason(
    downloader: Downloader, site: Site, answer: Answer, end: list[object]
) -> None:
    request = pb.ResolveRequest(source_url=site.url("/list", answer))

    assert await resolve_refusal(downloader, request) == end


@pytest.mark.parametrize(
    "request_",
    [
        pb.ResolveRequest(source_url="http://x.invalid/", max_videos=-1),
        pb.ResolveRequest(source_url="http://x.invalid/", from_date="yesterday"),
        pb.ResolveRequest(source_url="http://x.invalid/", from_date="2025-1-1"),
        pb.ResolveRequest(
            source_url="http://x.invalid/", from_date="2025-02-01", to_date="2025-01-01"
        ),
        pb.ResolveRequest(source_url="http://x.invalid/", period="2025-13"),
        pb.ResolveRequest(source_url="http://x.invalid/", period="October"),
        pb.ResolveRequest(source_url="http://x.invalid/", period="2025-10/2025-09"),
        pb.ResolveRequest(source_url="http://x.invalid/", period="2025/"),
        pb.ResolveRequest(source_url="http://x.invalid/", period="2025", to_date="2025-01-01"),
    ],
)
async def test_invalid_queries_are_refused(
    downloader: Downloader, request_: pb.ResolveRequest
) -> None:
    assert await resolve_refusal(downloader, request_) == [
        StatusCode.INVALID_ARGUMENT,
        "REQUEST_INVALID",
    ]


async def test_a_search_goes_to_the_site_it_names(serve: Serve, site: Site) -> None:
    async with serve(proxy=site.url("")) as downloader:
        await resolve_refusal(downloader, pb.ResolveRequest(source_url="ytsearch3:talks on talks"))

    assert set(site.hits) == {"www.youtube.com:443"}


@pytest.mark.parametrize("source", ["nosearch5:x", "file:///etc/hostname", "ytsearch5:", "talks"])
async def test_what_is_neither_an_address_nor_a_search_is_refused(
    downloader: Downloader, source: str
) -> None:
    assert await resolve_refusal(downloader, pb.ResolveRequest(source_url=source)) == [
        StatusCode.INVALID_ARGUMENT,
        "UNSUPPORTED_URL",
    ]
