"""Through the downloader no caller reaches this machine or its private networks."""

import pytest
from grpc import StatusCode

from downloader.child.guard import ForbiddenAddressError, Guard
from mesh.public_addresses import is_public
from tests.downloader.conftest import Serve
from tests.downloader.helpers import bytes_of, download, refusal
from tests.downloader.site import Site, content, redirect
from ytcaption.v1 import downloader_service_pb2 as pb

FORBIDDEN = [StatusCode.FAILED_PRECONDITION, "ADDRESS_FORBIDDEN"]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",  # noqa: S104 - refused, not bound
        "10.0.0.1",
        "172.16.5.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
        "::7f00:1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "fec0::1",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.2.1",
        "198.18.0.1",
        "240.0.0.1",
        "localhost",
        "example.com",
        "/run/some.sock",
        "",
    ],
)
def test_an_address_that_is_not_public_is_refused(host: str) -> None:
    guard = Guard()

    with pytest.raises(ForbiddenAddressError):
        guard.check((host, 80))

    assert len(guard.refused) == 1
    assert not host or host not in guard.refused[0]


@pytest.mark.parametrize(
    "host", ["93.184.215.14", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_an_address_of_the_open_internet_is_public(host: str) -> None:
    assert is_public(host)


def test_an_exempt_address_passes_but_not_its_neighbour() -> None:
    guard = Guard({"127.0.0.1"})

    guard.check(("127.0.0.1", 80))
    with pytest.raises(ForbiddenAddressError):
        guard.check(("127.0.0.2", 80))


async def test_an_exempt_address_is_reached_with_the_guard_in_place(
    serve: Serve, site: Site
) -> None:
    async with serve(allow_private_addresses=False, exempt_addresses=("127.0.0.1",)) as downloader:
        events = await download(downloader, site.url("/talk.mp3", content(b"public")))

    assert bytes_of(events) == b"public"


def test_a_proxy_is_trusted_but_not_its_neighbours_on_the_same_machine() -> None:
    guard = Guard()
    guard.trust_proxy("http://127.0.0.1:3128")

    guard.check(("127.0.0.1", 3128))
    with pytest.raises(ForbiddenAddressError):
        guard.check(("127.0.0.1", 6379))


async def test_a_proxy_that_does_not_resolve_is_unreachable(serve: Serve) -> None:
    async with serve(allow_private_addresses=False, proxy="http://unknown.invalid:1") as downloader:
        request = pb.DownloadRequest(source_url="http://talks.invalid/talk.mp3")
        _, *end = await refusal(downloader, request)

    assert end == [StatusCode.UNAVAILABLE, "HOST_UNREACHABLE"]


async def test_the_operators_proxy_is_used_and_may_be_private(serve: Serve, site: Site) -> None:
    url = "http://talks.invalid/talk.mp3"
    site.answers[url] = content(b"through the proxy")
    async with serve(allow_private_addresses=False, proxy=site.url("")) as downloader:
        events = await download(downloader, url)

    assert bytes_of(events) == b"through the proxy"


@pytest.mark.parametrize("host", ["127.0.0.2", "0x7f000002", "169.254.169.254", "localhost"])
async def test_a_proxy_is_not_handed_a_private_host(serve: Serve, site: Site, host: str) -> None:
    async with serve(allow_private_addresses=False, proxy=site.url("")) as downloader:
        request = pb.DownloadRequest(source_url=f"http://{host}:8000/talk.mp3")
        _, *end = await refusal(downloader, request)

    assert end == FORBIDDEN
    assert site.hits == []


async def test_a_proxy_is_not_handed_a_private_host_by_a_redirect(serve: Serve, site: Site) -> None:
    url = "http://talks.invalid/talk.mp3"
    site.answers[url] = redirect("http://127.0.0.2:8000/secret.mp3")
    async with serve(allow_private_addresses=False, proxy=site.url("")) as downloader:
        _, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == FORBIDDEN
    assert site.hits == [url]
