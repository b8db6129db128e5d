"""SSRF attacks on the guard: each is refused with its reason, and no private host is reached."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from grpc import StatusCode

from downloader.ytdlp_engine import ServiceLimits
from tests.downloader import fake_dns
from tests.downloader.conftest import Serve
from tests.downloader.helpers import Downloader, bytes_of, caption_refusal, refusal, resolve_refusal
from tests.downloader.site import Answer, Site, content, redirect
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import media_pb2

FORBIDDEN = [StatusCode.FAILED_PRECONDITION, "ADDRESS_FORBIDDEN"]

DIRECT = {
    "loopback": "127.0.0.1",
    "loopback, another": "127.9.9.9",
    "any address": "0.0.0.0",  # noqa: S104 - refused, not bound
    "decimal": "2130706433",
    "hexadecimal": "0x7f000001",
    "hexadecimal in parts": "0x7f.0.0x0.1",
    "octal": "017700000001",
    "octal in parts": "0177.0.0.01",
    "short": "127.1",
    "with a name before it": "user:word@127.0.0.1",
    "full width digits": "１２７.0.0.1",  # noqa: RUF001 - the attack
    "localhost": "localhost",
    "a name that resolves to loopback": fake_dns.name_for("127.0.0.1"),
    "ten": "10.0.0.1",
    "seventeen two": "172.16.0.1",
    "one nine two": "192.168.0.1",
    "shared": "100.64.0.1",
    "link-local": "169.254.1.1",
    "cloud metadata": "169.254.169.254",
    "cloud metadata, decimal": "2852039166",
    "cloud metadata by a name": fake_dns.name_for("169.254.169.254"),
    "cloud metadata of another": "100.100.100.200",
    "cloud metadata that looks public": "168.63.129.16",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "six: loopback": "[::1]",
    "six: any address": "[::]",
    "six: mapped": "[::ffff:127.0.0.1]",
    "six: mapped, hexadecimal": "[::ffff:7f00:1]",
    "six: compatible": "[::127.0.0.1]",
    "six: NAT64": "[64:ff9b::7f00:1]",
    "six: local NAT64": "[64:ff9b:1::7f00:1]",
    "six: 6to4": "[2002:7f00:1::1]",
    "six: unique local": "[fd00::1]",
    "six: link-local": "[fe80::1]",
    "six: site-local": "[fec0::1]",
    "six: cloud metadata": "[fd00:ec2::254]",
    "six: mapped cloud metadata": "[::ffff:169.254.169.254]",
}

REACHES = ("loopback", "decimal", "hexadecimal", "octal", "short", "localhost", "six: mapped")


@pytest.fixture
def target() -> Iterator[Site]:
    """A host that must not be reached, however its address is spelled."""
    with Site("0.0.0.0").running() as running:  # noqa: S104 - every address of this machine
        running.answers["/secret.mp3"] = content(b"secret")
        yield running


@pytest.fixture
async def guarded(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Downloader]:
    monkeypatch.setattr("downloader.fork_server.run_child", fake_dns.run_child)
    async with serve(allow_private_addresses=False) as downloader:
        yield downloader


@pytest.fixture
async def with_a_public_site(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Downloader]:
    """127.0.0.1 stands for a public host, and 127.0.0.2 for a private one."""
    monkeypatch.setattr("downloader.fork_server.run_child", fake_dns.run_child)
    async with serve(allow_private_addresses=False, exempt_addresses=("127.0.0.1",)) as downloader:
        yield downloader


@pytest.mark.parametrize("host", DIRECT.values(), ids=DIRECT)
async def test_a_private_address_is_refused_however_it_is_spelled(
    guarded: Downloader, target: Site, host: str
) -> None:
    url = target.url("/secret.mp3", host=host)

    events, *end = await refusal(guarded, pb.DownloadRequest(source_url=url))

    assert end == FORBIDDEN
    assert events == []
    assert target.hits == []


@pytest.mark.parametrize("way", REACHES)
async def test_without_the_guard_the_same_spelling_does_reach_the_target(
    downloader: Downloader, target: Site, way: str
) -> None:
    request = pb.DownloadRequest(source_url=target.url("/secret.mp3", host=DIRECT[way]))

    assert bytes_of([each async for each in downloader.Download(request)]) == b"secret"


def hls(line: str) -> Answer:
    text = f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{line}\n#EXT-X-ENDLIST\n"
    return content(text.encode(), "application/vnd.apple.mpegurl")


def hls_with_key(key: str) -> Answer:
    return hls(f'x.ts\n#EXT-X-KEY:METHOD=AES-128,URI="{key}"\n#EXTINF:4,\nx.ts')


def hls_master(line: str) -> Answer:
    text = f'#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=64000,CODECS="mp4a.40.2"\n{line}\n'
    return content(text.encode(), "application/vnd.apple.mpegurl")


def dash(base: str) -> Answer:
    text = f"""<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT8S">
<Period><AdaptationSet mimeType="audio/mp4"><Representation id="a" bandwidth="64000">
<SegmentList duration="4"><SegmentURL media="{base}"/></SegmentList>
</Representation></AdaptationSet></Period></MPD>"""
    return content(text.encode(), "application/dash+xml")


def page(media: str) -> Answer:
    html = f'<html><title>x</title><body><video><source src="{media}"></video></body></html>'
    return content(html.encode(), "text/html")


INDIRECT: dict[str, Callable[[str], Answer]] = {
    "redirect": redirect,
    "HLS segment": hls,
    "HLS key": hls_with_key,
    "HLS variant": hls_master,
    "DASH segment": dash,
    "page with a video": page,
}


@pytest.mark.parametrize("make", INDIRECT.values(), ids=INDIRECT)
async def test_a_public_site_cannot_send_us_to_a_private_host(
    with_a_public_site: Downloader, site: Site, target: Site, make: Callable[[str], Answer]
) -> None:
    site.url("/x.ts", content(b"x"))
    url = site.url("/talk", make(target.url("/secret.mp3", host="127.0.0.2")))

    _, *end = await refusal(with_a_public_site, pb.DownloadRequest(source_url=url))

    assert end == FORBIDDEN
    assert site.hits[0] == "/talk"
    assert target.hits == []


@pytest.mark.parametrize("way", INDIRECT)
@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/x.ts"])
async def test_a_public_site_cannot_send_us_to_a_file(
    with_a_public_site: Downloader, site: Site, way: str, address: str
) -> None:
    site.url("/x.ts", content(b"x"))
    url = site.url("/talk", INDIRECT[way](address))

    events, _, reason = await refusal(with_a_public_site, pb.DownloadRequest(source_url=url))

    # yt-dlp skips what it cannot fetch on a page; other links it follows, and is refused.
    assert reason == ("UNSUPPORTED_URL" if way == "page with a video" else "ADDRESS_FORBIDDEN")
    assert bytes_of(events) in (b"", b"x")


async def test_a_name_that_changes_its_address_between_page_and_media_is_refused(
    with_a_public_site: Downloader, site: Site
) -> None:
    # One DNS lookup for the page, another for the media; both sites use the same port.
    with Site("127.0.0.2", site.port).running() as private:
        private.answers["/talk.mp3"] = content(b"secret")
        host = fake_dns.name_for("127.0.0.1", "127.0.0.2")
        url = site.url("/talk.mp3", content(b"public"), host=host)

        events, *end = await refusal(with_a_public_site, pb.DownloadRequest(source_url=url))

    assert end == FORBIDDEN
    assert site.hits == ["/talk.mp3"]
    assert bytes_of(events) == b""
    assert private.hits == []


async def test_a_list_and_captions_have_the_same_guard(guarded: Downloader, target: Site) -> None:
    url = target.url("/secret.mp3")

    assert await resolve_refusal(guarded, pb.ResolveRequest(source_url=url)) == FORBIDDEN
    assert await caption_refusal(guarded, pb.FetchCaptionsRequest(source_url=url)) == FORBIDDEN
    assert target.hits == []


async def test_a_callers_proxy_must_be_public_too(serve: Serve, target: Site) -> None:
    options = media_pb2.DownloadOptions(proxy=target.url(""))
    request = pb.DownloadRequest(source_url="http://talks.invalid/talk.mp3", options=options)
    service_limits = ServiceLimits(allow_caller_proxy=True)
    async with serve(allow_private_addresses=False, service_limits=service_limits) as downloader:
        _, *end = await refusal(downloader, request)

    assert end == FORBIDDEN
    assert target.hits == []
