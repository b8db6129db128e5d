"""examples/escavador_blog reads feeds and pages of a local blog, over gRPC."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from mesh.addresses import free_ports
from tests.orchestrator.tasks.services import struct
from tests.support.site import Site
from tests.support.strangers import ROOT, serving_program, stranger_environment
from ytcaption.v1 import collector_service_pb2 as pb
from ytcaption.v1 import collector_service_pb2_grpc as rpc

RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel><title>Blog</title><language>pt-BR</language>
<item><title>Um &amp; dois</title><link>/1</link><pubDate>Fri, 03 Oct 2025 10:00:00 GMT</pubDate>
<description>curto</description><content:encoded>
&lt;p&gt;Olá &lt;b&gt;mundo&lt;/b&gt;.&lt;/p&gt;&lt;script&gt;x&lt;/script&gt;
</content:encoded></item>
<item><title>Três</title><link>/3</link><pubDate>Sat, 01 Nov 2025 10:00:00 GMT</pubDate>
<description>Texto do três.</description></item>
</channel></rss>"""
ATOM = """<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">
<entry><title>One</title><link rel="self" href="/self"/><link href="/one"/>
<published>2025-10-05T00:00:00Z</published><summary>Text of one.</summary></entry>
</feed>"""
PAGE = """<!doctype html><html lang="pt"><head><title>t</title><style>p {}</style></head><body>
<nav>menu</nav><article><h2><a href="/a">Artigo A</a></h2><time datetime="2025-10-07">7</time>
<p>Texto A<br>segue</p></article>
<article><h2><a href="/b">Artigo B</a></h2><p>Texto B</p></article></body></html>"""


@pytest.fixture(scope="module")
async def blog(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[rpc.CollectorServiceStub]:
    folder: Path = tmp_path_factory.mktemp("blog")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    program = serving_program(
        stranger_environment(folder),
        *("escavador.py", address),
        folder=ROOT / "examples" / "escavador_blog",
    )
    async with program, grpc.aio.insecure_channel(address) as channel:
        yield rpc.CollectorServiceStub(channel)


async def found_by(
    blog: rpc.CollectorServiceStub, address: str, **fields: Any
) -> list[pb.CollectResponse]:
    request = pb.CollectRequest(type="blog", parameters=struct({"endereco": address}), **fields)
    return [one async for one in blog.Collect(request) if one.HasField("document")]


async def test_an_rss_feed_is_read_with_days_and_languages(
    blog: rpc.CollectorServiceStub, site: Site
) -> None:
    feed = site.page("/feed.xml", RSS.encode(), "application/rss+xml")

    first, second = await found_by(blog, feed)

    assert first.key == first.document.url == f"{site.url}/1"
    assert (first.document.title, first.document.text) == ("Um & dois", "Olá mundo.")
    assert (first.document.publish_date, first.document.language) == ("2025-10-03", "pt-BR")
    assert second.document.text == "Texto do três."


async def test_only_the_wanted_days_and_number_are_yielded(
    blog: rpc.CollectorServiceStub, site: Site
) -> None:
    feed = site.page("/feed.xml", RSS.encode(), "application/rss+xml")

    october = await found_by(blog, feed, from_date="2025-10-01", to_date="2025-10-31")
    one = await found_by(blog, feed, max_items=1)

    assert [found.document.title for found in october] == ["Um & dois"]
    assert len(one) == 1


async def test_an_atom_feed_that_a_page_names_is_read(
    blog: rpc.CollectorServiceStub, site: Site
) -> None:
    site.page("/atom.xml", ATOM.encode(), "application/atom+xml")
    link = b'<html><link rel="alternate" type="application/atom+xml" href="atom.xml"></html>'

    [found] = await found_by(blog, site.page("/home", link, "text/html"))

    assert (found.key, found.document.text) == (f"{site.url}/one", "Text of one.")
    assert (found.document.publish_date, found.document.language) == ("2025-10-05", "en")


async def test_a_page_without_a_feed_yields_its_articles(
    blog: rpc.CollectorServiceStub, site: Site
) -> None:
    first, second = await found_by(blog, site.page("/posts", PAGE.encode(), "text/html"))

    assert (first.document.title, first.document.publish_date) == ("Artigo A", "2025-10-07")
    assert first.key == f"{site.url}/a"
    assert first.document.text.endswith("Texto A\n\nsegue")
    assert (second.key, second.document.language) == (f"{site.url}/b", "pt")


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, grpc.StatusCode.NOT_FOUND), (503, grpc.StatusCode.UNAVAILABLE)],
)
async def test_a_blog_that_is_gone_fails_for_good_and_one_that_is_down_does_not(
    blog: rpc.CollectorServiceStub, site: Site, status: int, code: grpc.StatusCode
) -> None:
    gone = site.page(f"/{status}", b"", "text/html", status)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await found_by(blog, gone)

    assert caught.value.code() == code
