"""Human-made captions are found in the requested language; automatic ones are ignored."""

from datetime import timedelta

import pytest
from google.protobuf.duration import from_timedelta
from grpc import StatusCode

from downloader.child.captions import parse_cues, preferred_languages
from tests.downloader.helpers import Downloader, caption_refusal
from tests.downloader.site import Site, content, status
from ytcaption.v1 import downloader_service_pb2 as pb

VTT = """WEBVTT

NOTE by hand

1
00:00:00.500 --> 00:00:02.000 align:start
<v Ada>Hello &amp; <i>welcome</i>.

00:00:02.000 --> 00:00:03.250
Two
lines
"""
SRT = "1\n00:00:01,000 --> 00:00:02,500\n<b>Bonjour</b>\n\n2\n00:00:03,000 --> 00:00:04,000\n\n"


def page(site: Site, **tracks: str) -> str:
    lines = "".join(
        f'<track kind="subtitles" srclang="{tag.replace("_", "-")}" src="{file}">'
        for tag, file in tracks.items()
    )
    html = f'<html><title>A talk</title><video><source src="/talk.mp4">{lines}</video></html>'
    return site.url("/page", content(html.encode(), "text/html"))


@pytest.fixture
def talk(site: Site) -> str:
    site.url("/en.vtt", content(VTT.encode(), "text/vtt"))
    site.url("/fr.srt", content(SRT.encode(), "application/x-subrip"))
    return page(site, en_US="/en.vtt", fr="/fr.srt")


async def captions(stub: Downloader, url: str, *languages: str) -> list[pb.FetchCaptionsResponse]:
    request = pb.FetchCaptionsRequest(job_id="j1", source_url=url, languages=languages)
    return [each async for each in stub.FetchCaptions(request)]


def kinds(events: list[pb.FetchCaptionsResponse]) -> list[str]:
    return [str(each.WhichOneof("event")) for each in events]


async def test_captions_in_a_requested_language_come_as_segments(
    downloader: Downloader, site: Site, talk: str
) -> None:
    events = await captions(downloader, talk, "de", "en")

    assert kinds(events) == ["media", "track", "segment", "segment", "finished"]
    assert events[0].media.title == "A talk (1)"
    assert events[1].track.language == "en-US"
    first, second = events[2].segment, events[3].segment
    assert (first.index, first.text, first.language) == (0, "Hello & welcome.", "en-US")
    assert (second.index, second.text) == (1, "Two lines")
    assert first.start_offset.ToTimedelta() == timedelta(seconds=0.5)
    assert second.end_offset == second.settled_offset
    assert second.end_offset.ToTimedelta() == timedelta(seconds=3.25)
    assert events[-1].finished == pb.CaptionsFinished(found=True, segments=2)
    assert "/talk.mp4" not in site.hits  # no byte of the recording was fetched


async def test_captions_in_another_file_format_are_read(downloader: Downloader, talk: str) -> None:
    events = await captions(downloader, talk, "fr-CA")

    assert [each.segment.text for each in events if each.HasField("segment")] == ["Bonjour"]


@pytest.mark.parametrize("languages", [("de",), ()])
async def test_no_captions_in_a_requested_language_is_not_an_error(
    downloader: Downloader, site: Site, talk: str, languages: tuple[str, ...]
) -> None:
    events = await captions(downloader, talk, *languages)

    assert kinds(events) == ["media", "finished"]
    assert not events[-1].finished.found
    assert "/en.vtt" not in site.hits


async def test_without_a_requested_language_the_only_captions_are_taken(
    downloader: Downloader, site: Site, talk: str
) -> None:
    events = await captions(downloader, page(site, fr="/fr.srt"))

    assert events[1].track.language == "fr"


async def test_captions_that_cannot_be_parsed_count_as_not_found(
    downloader: Downloader, site: Site
) -> None:
    site.url("/en.vtt", content(b"<html>gone</html>", "text/vtt"))

    events = await captions(downloader, page(site, en="/en.vtt"), "en")

    assert kinds(events) == ["media", "finished"]


async def test_segmented_captions_are_joined(downloader: Downloader, site: Site) -> None:
    header = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n\n"
    site.url("/0.vtt", content(f"{header}00:00.000 --> 00:02.000\nOne\n".encode(), "text/vtt"))
    site.url("/1.vtt", content(f"{header}00:04.000 --> 00:06.000\nTwo\n".encode(), "text/vtt"))
    pieces = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{0}\n#EXTINF:4,\n{1}\n#EXT-X-ENDLIST\n"
    site.url("/subs.m3u8", content(pieces.format("0.vtt", "1.vtt").encode()))
    site.url("/audio.m3u8", content(pieces.format("0.ts", "1.ts").encode()))
    master = (
        '#EXTM3U\n#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="s",NAME="English",LANGUAGE="en",'
        'URI="subs.m3u8"\n#EXT-X-STREAM-INF:BANDWIDTH=64000,CODECS="mp4a.40.2",SUBTITLES="s"\n'
        "audio.m3u8\n"
    )
    url = site.url("/talk.m3u8", content(master.encode(), "application/vnd.apple.mpegurl"))

    events = await captions(downloader, url, "en")

    segments = [each.segment for each in events if each.HasField("segment")]
    assert [each.text for each in segments] == ["One", "Two"]
    assert segments[1].start_offset.ToTimedelta() == timedelta(seconds=4)


async def test_captions_that_cannot_be_fetched_fail_with_their_reason(
    downloader: Downloader, site: Site
) -> None:
    site.url("/en.vtt", status(429))
    request = pb.FetchCaptionsRequest(source_url=page(site, en="/en.vtt"), languages=["en"])

    assert await caption_refusal(downloader, request) == [StatusCode.UNAVAILABLE, "RATE_LIMITED"]


async def test_a_recording_that_download_would_refuse_is_refused(
    downloader: Downloader, site: Site
) -> None:
    text = b"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n0.ts\n"
    kind = "application/vnd.apple.mpegurl"
    live = site.url("/live.m3u8", content(text, kind))
    long = site.url("/long.m3u8", content(text + b"#EXT-X-ENDLIST\n", kind))
    a_second = from_timedelta(timedelta(seconds=1))

    request = pb.FetchCaptionsRequest(source_url=live)
    assert (await caption_refusal(downloader, request))[1] == "LIVE_STREAM"
    request = pb.FetchCaptionsRequest(source_url=long, max_duration=a_second)
    assert (await caption_refusal(downloader, request))[1] == "TOO_LONG"


def test_automatic_captions_and_live_chat_are_ignored() -> None:
    info: dict[str, object] = {"automatic_captions": {"en": [{}]}, "subtitles": {"live_chat": [{}]}}

    assert list(preferred_languages(info, ("en",))) == []
    assert list(preferred_languages(info, ())) == []


@pytest.mark.parametrize(
    ("wanted", "order"),
    [
        (("pt",), ["pt", "pt-BR", "pt-PT"]),
        (("pt-BR",), ["pt-BR", "pt"]),
        (("pt-pt",), ["pt-PT", "pt"]),
        (("en",), ["en-nP7-2PuUl7o"]),
        (("zh-Hant",), ["zh-TW", "zh"]),
        (("pt-BR", "en"), ["pt-BR", "pt", "en-nP7-2PuUl7o"]),
        ((), ["es"]),
    ],
)
def test_the_nearest_language_comes_first(wanted: tuple[str, ...], order: list[str]) -> None:
    there = ["pt-BR", "pt", "pt-PT", "en-nP7-2PuUl7o", "es", "ptx", "zh", "zh-CN", "zh-TW"]
    info = {"subtitles": {tag: [{}] for tag in there}, "language": "es"}

    assert list(preferred_languages(info, wanted)) == order


def test_cues_are_in_time_order_and_never_empty() -> None:
    text = "1\n00:00:05,000 --> 00:00:06,000\nlater\n\n2\n00:00:01,000 --> 00:00:02,000\nsooner\n"

    assert [cue for *_, cue in parse_cues(text, "srt")] == ["sooner", "later"]
