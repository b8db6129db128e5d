"""Headers of HTTP: private data is not cached, and no request is read in two ways."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support.controlled_collections import ControlledCollection, serving_collections
from tests.support.http import running_gateway


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a gateway whose orchestrator has one collection."""
    async with (
        serving_collections(ControlledCollection()) as address,
        running_gateway(orchestrator=address) as client,
    ):
        yield client


async def raw(http: httpx2.AsyncClient, *lines: str, body: bytes = b"") -> bytes:
    """The answer to a request that no client library would send."""
    url = urlsplit(str(http.base_url))
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        async with asyncio.timeout(60):
            return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


PRIVATE = ["/jobs", "/collections", "/live", "/nothing", "/jobs/x", "/collections/x/report"]


@pytest.mark.parametrize("path", PRIVATE)
async def test_private_data_is_stored_by_no_cache(http: httpx2.AsyncClient, path: str) -> None:
    answer = await http.get(path)

    assert answer.headers["cache-control"] == "private, no-store"


async def test_an_event_stream_is_stored_by_no_cache(http: httpx2.AsyncClient) -> None:
    async with http.stream("GET", "/collections/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "private, no-store"


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_the_page_itself_may_be_kept_and_revalidated(
    http: httpx2.AsyncClient, path: str
) -> None:
    assert (await http.get(path)).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/", "/jobs", "/nothing"])
async def test_other_sites_may_not_load_a_response(http: httpx2.AsyncClient, path: str) -> None:
    assert (await http.get(path)).headers["cross-origin-resource-policy"] == "same-origin"


async def test_an_origin_of_another_scheme_is_another_origin(http: httpx2.AsyncClient) -> None:
    host = http.base_url.netloc.decode()

    other = await http.post("/pipeline", headers={"Origin": f"https://{host}"}, json={})
    own = await http.post("/pipeline", headers={"Origin": f"http://{host}"}, json={})

    assert other.status_code == 403
    assert own.status_code == 422  # it is read, and names no address


SMUGGLED = {
    "length before encoding": ("Content-Length: 5", "Transfer-Encoding: chunked"),
    "encoding before length": ("Transfer-Encoding: chunked", "Content-Length: 5"),
    "identity": ("Transfer-Encoding: identity", "Content-Length: 5"),
    "unknown encoding": ("Transfer-Encoding: xchunked",),
    "two lengths": ("Content-Length: 5", "Content-Length: 6"),
    "the same length twice": ("Content-Length: 5", "Content-Length: 5"),
    "blank before the colon": ("Transfer-Encoding : chunked",),
}


@pytest.mark.parametrize("lines", SMUGGLED.values(), ids=SMUGGLED)
async def test_a_body_whose_length_is_said_twice_is_refused(
    http: httpx2.AsyncClient, lines: tuple[str, ...]
) -> None:
    host = http.base_url.netloc.decode()

    head = await raw(http, "POST /pipeline HTTP/1.1", f"Host: {host}", *lines, body=b"0\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert b"connection: close" in head


@pytest.mark.parametrize(
    "hosts", [(), ("Host: 127.0.0.1", "Host: 127.0.0.1"), ("Host: 127.0.0.1", "Host: evil.test")]
)
async def test_a_request_names_one_host(http: httpx2.AsyncClient, hosts: tuple[str, ...]) -> None:
    head = await raw(http, "GET /jobs HTTP/1.1", *hosts)

    assert head.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        ("", "evil.test", 403),
        ("", "127.0.0.1", 200),
        ("captions.test", "captions.test", 200),
        ("captions.test", "127.0.0.1", 403),
        ("*", "evil.test", 200),
    ],
)
async def test_off_loopback_a_host_name_is_one_that_the_operator_named(
    hosts: str, host: str, status: int
) -> None:
    async with (
        serving_collections(ControlledCollection()) as address,
        running_gateway(orchestrator=address, listen="0.0.0.0:0", hosts=hosts) as http,
    ):
        answer = await http.get("/collections", headers={"Host": host})

    assert answer.status_code == status


async def test_a_probe_of_liveness_needs_no_host_name_of_ours() -> None:
    async with (
        serving_collections(ControlledCollection()) as address,
        running_gateway(orchestrator=address, hosts="captions.test") as http,
    ):
        alive = await http.get("/live", headers={"Host": "127.0.0.1"})

    assert alive.json() == {"status": "alive"}
