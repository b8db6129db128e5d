"""Cookies, user agent, proxy and rate options: each changes what the site sees."""

import base64
import json
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from google.protobuf.duration import from_timedelta
from grpc import StatusCode
from structlog.testing import capture_logs

from downloader.admission import grant
from downloader.commands import ClientOptions
from downloader.engine import DownloadOptions
from downloader.ytdlp_engine import ServiceLimits
from mesh.errors import InvalidRequestError
from tests.downloader.conftest import Serve
from tests.downloader.helpers import Downloader, bytes_of, download, files_in, refusal
from tests.downloader.site import Site, content, only_with_cookie, status
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import media_pb2

DATA = b"\1" * 400_000
SECRET = "s3cr3t-of-the-operator"  # noqa: S105 - of a site of our own


def cookies(folder: Path, text: str) -> Path:
    file = folder / "cookies.txt"
    file.write_text(text)
    file.chmod(0o400)
    return file


def netscape(value: str) -> str:
    return f"# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\t{value}\n"


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operator")


async def test_the_operators_cookies_are_sent_and_their_file_is_left_alone(
    serve: Serve, site: Site, elsewhere: Path
) -> None:
    file = cookies(elsewhere, netscape(SECRET))
    before = file.read_bytes(), file.stat().st_mtime_ns
    url = site.url("/talk.mp3", only_with_cookie(f"session={SECRET}", DATA))
    async with serve(cookies_file=str(file)) as downloader:
        events = await download(downloader, url)

    assert bytes_of(events) == DATA
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


async def test_the_copy_of_the_cookies_is_readable_by_its_owner_only(
    serve: Serve, site: Site, elsewhere: Path, tmp_path: Path
) -> None:
    file = cookies(elsewhere, netscape(SECRET))
    site.url("/talk.mp3", content(DATA))
    modes = []
    async with serve(cookies_file=str(file)) as downloader:
        async for _ in downloader.Download(pb.DownloadRequest(source_url=site.url("/talk.mp3"))):
            modes += [f.stat().st_mode & 0o777 for f in files_in(tmp_path) if f.name == file.name]

    assert set(modes) == {0o600}


async def test_no_cookie_appears_in_an_error_an_event_or_a_log_line(
    serve: Serve, site: Site, elsewhere: Path
) -> None:
    file = cookies(elsewhere, netscape(SECRET))
    # An address that holds it, so that yt-dlp quotes it.
    request = pb.DownloadRequest(source_url=site.url(f"/{SECRET}", status(404)))
    with capture_logs() as lines:
        async with serve(cookies_file=str(file)) as downloader:
            events, *end = await refusal(downloader, request)

    assert end == [StatusCode.FAILED_PRECONDITION, "VIDEO_NOT_FOUND"]
    assert SECRET in site.seen[0]["Cookie"]
    assert lines
    assert SECRET not in json.dumps(lines, default=str) + str(events)


@pytest.mark.parametrize("text", [f"session={SECRET}", f"127.0.0.1\tFALSE\t/\t{SECRET}\n", "\0\1"])
async def test_an_invalid_cookies_file_is_refused_and_never_quoted(
    serve: Serve, site: Site, elsewhere: Path, text: str
) -> None:
    file = cookies(elsewhere, text)
    url = site.url("/talk.mp3", content(DATA))
    with capture_logs() as lines:
        async with serve(cookies_file=str(file)) as downloader:
            _, *end = await refusal(downloader, pb.DownloadRequest(source_url=url))

    assert end == [StatusCode.FAILED_PRECONDITION, "COOKIES_INVALID"]
    assert site.hits == []
    assert SECRET not in json.dumps(lines, default=str)


async def test_the_operators_user_agent_is_sent(serve: Serve, site: Site) -> None:
    async with serve(user_agent="Operator/1.0") as downloader:
        await download(downloader, site.url("/talk.mp3", content(DATA)))

    assert {each["User-Agent"] for each in site.seen} == {"Operator/1.0"}


async def test_a_callers_user_agent_replaces_the_operators(serve: Serve, site: Site) -> None:
    url = site.url("/talk.mp3", content(DATA))
    async with serve(user_agent="Operator/1.0") as downloader:
        await with_options(downloader, url, user_agent="Caller/2.0")

    assert {each["User-Agent"] for each in site.seen} == {"Caller/2.0"}


async def test_connections_come_from_the_source_address(serve: Serve, site: Site) -> None:
    callers = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        callers.append(request.client_address[0])
        content(DATA)(request)

    url = site.url("/talk.mp3", answer)
    async with serve(source_address="127.0.0.7") as downloader:
        await download(downloader, url)

    assert set(callers) == {"127.0.0.7"}


@pytest.mark.parametrize("who", ["operator", "caller"])
async def test_the_rate_limit_slows_a_download_down(serve: Serve, site: Site, who: str) -> None:
    url = site.url("/talk.mp3", content(DATA))
    async with serve(max_bytes_per_second=200_000 if who == "operator" else 0) as downloader:
        events = await with_options(
            downloader, url, max_bytes_per_second=200_000 if who == "caller" else 0
        )

    assert bytes_of(events) == DATA
    last = [each.progress for each in events if each.HasField("progress")][-1]
    # Well below an unlimited loopback transfer, which is a hundred times as fast.
    assert last.bytes_per_second < 400_000


@pytest.mark.parametrize("who", ["operator", "caller"])
async def test_requests_are_spaced_out(serve: Serve, site: Site, who: str) -> None:
    pause = 0.4
    url = site.url("/talk.mp3", content(DATA))
    async with serve(request_interval_seconds=pause if who == "operator" else 0) as downloader:
        wanted = timedelta(seconds=pause if who == "caller" else 0)
        await with_options(downloader, url, request_interval=from_timedelta(wanted))

    page, media = site.times
    assert media - page >= pause


async def test_the_proxy_password_reaches_the_proxy_but_no_message(
    serve: Serve, site: Site
) -> None:
    proxy = f"http://user:{SECRET}@127.0.0.1:{site.port}"
    with capture_logs() as lines:
        async with serve(proxy=proxy) as downloader:
            request = pb.DownloadRequest(source_url="http://talks.invalid/talk.mp3")
            _, *end = await refusal(downloader, request)

    assert end == [StatusCode.FAILED_PRECONDITION, "VIDEO_NOT_FOUND"]
    sent = base64.b64encode(f"user:{SECRET}".encode()).decode()
    assert site.seen[0]["Proxy-Authorization"] == f"Basic {sent}"
    assert SECRET not in json.dumps(lines, default=str)


async def test_a_caller_may_choose_a_proxy_only_if_the_operator_says_so(
    serve: Serve, site: Site
) -> None:
    url = "http://talks.invalid/talk.mp3"
    site.answers[url] = content(DATA)
    options = media_pb2.DownloadOptions(proxy=site.url(""))
    async with serve() as downloader:
        _, *end = await refusal(downloader, pb.DownloadRequest(source_url=url, options=options))
        assert end == [StatusCode.INVALID_ARGUMENT, "REQUEST_INVALID"]
        assert site.hits == []
    async with serve(service_limits=ServiceLimits(allow_caller_proxy=True)) as downloader:
        events = await with_options(downloader, url, proxy=site.url(""))

    assert bytes_of(events) == DATA


@pytest.mark.parametrize(
    "options",
    [
        media_pb2.DownloadOptions(user_agent="x\r\nCookie: y"),
        media_pb2.DownloadOptions(user_agent="x" * 501),
        media_pb2.DownloadOptions(request_interval=from_timedelta(timedelta(seconds=-1))),
        media_pb2.DownloadOptions(request_interval=from_timedelta(timedelta(hours=1))),
        media_pb2.DownloadOptions(proxy="gopher://example.com"),
    ],
)
async def test_invalid_options_are_refused_before_the_site_is_asked(
    serve: Serve, site: Site, options: media_pb2.DownloadOptions
) -> None:
    request = pb.DownloadRequest(source_url=site.url("/talk.mp3", content(DATA)), options=options)
    async with serve(service_limits=ServiceLimits(allow_caller_proxy=True)) as downloader:
        _, *end = await refusal(downloader, request)

    assert end == [StatusCode.INVALID_ARGUMENT, "REQUEST_INVALID"]
    assert site.hits == []


def test_a_caller_never_gets_more_than_the_operator_allows() -> None:
    client_options = ClientOptions(10, max_bytes_per_second=5000, request_interval_seconds=2)

    greedy = grant(
        client_options,
        DownloadOptions(max_bytes_per_second=9999, request_interval=timedelta(seconds=1)),
    )
    modest = grant(
        client_options,
        DownloadOptions(max_bytes_per_second=2000, request_interval=timedelta(seconds=3)),
    )

    assert (greedy.max_bytes_per_second, greedy.request_interval_seconds) == (5000, 2)
    assert (modest.max_bytes_per_second, modest.request_interval_seconds) == (2000, 3)
    assert not grant(client_options, DownloadOptions(proxy="http://example.com")).proxy_is_trusted


def test_a_caller_cannot_ask_for_a_download_that_would_be_too_slow() -> None:
    client_options = ClientOptions(10, min_rate_bytes=1000)

    assert grant(client_options, DownloadOptions(max_bytes_per_second=1000))
    with pytest.raises(InvalidRequestError):
        grant(client_options, DownloadOptions(max_bytes_per_second=999))


async def with_options(
    downloader: Downloader, url: str, **options: object
) -> list[pb.DownloadResponse]:
    request = pb.DownloadRequest(
        source_url=url,
        options=media_pb2.DownloadOptions(**options),  # type: ignore[arg-type]
    )
    return [each async for each in downloader.Download(request)]
