"""Subtasks, documents and result files of a collection, live."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from mesh.addresses import free_ports
from tests.browser.api_client import ApiClient
from tests.browser.fake_collection import (
    ID,
    collection,
    document,
    events,
    member,
    serve_collection,
    subtask,
    subtasks_of_every_state,
)
from tests.support.site import Site
from tests.support.strangers import ROOT, stranger_environment

MESH_MS = 60_000
HOSTILE = "<img src=x onerror=window.hit=1>"
FEED = """<rss><channel><language>pt-BR</language>
<item><title>&amp;lt;img src=x onerror=window.hit=1&amp;gt;</title><link>http://a.test/1</link>
<pubDate>Tue, 03 Feb 2026 10:00:00 GMT</pubDate><description>Texto do um.</description></item>
<item><title>Dois</title><link>http://a.test/2</link>
<description>Texto do dois.</description></item></channel></rss>"""


@pytest.fixture
def blog(api: ApiClient, tmp_path: Path) -> Iterator[str]:
    """The collector of examples/escavador_blog, registered with the mesh: its type."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    process = subprocess.Popen(
        (sys.executable, "-S", "escavador.py", address),
        cwd=ROOT / "examples" / "escavador_blog",
        env=stranger_environment(tmp_path),
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout
        assert process.stdout.readline().startswith(b"serving ")
        api.add_type("collector", "blog", address)
        yield "blog"
        api.remove_type("collector", "blog")
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_real_collector_and_the_report_of_its_documents_are_followed_live(
    page: Page, api: ApiClient, held_site: Site, blog: str
) -> None:
    feed = held_site.page("/held/feed.xml", FEED.encode(), "application/rss+xml")
    made = api.collect(
        title="Two posts",
        sources=[{"type": blog, "parameters": {"endereco": feed}}],
        executors=[{"kind": "relatorio", "parameters": {"formato": "md"}}],
    )
    page.goto(f"/#/collection/{made}")
    rows = page.get_by_role("region", name="Subtasks").get_by_role("listitem")
    texts = page.get_by_role("region", name="Documents").get_by_role("listitem")
    collector = page.locator(".subtask").filter(has_text=blog)
    expect(collector).to_contain_text("Collector")
    expect(collector).to_contain_text(f"endereco: {feed}")
    expect(collector.locator(".member-state")).to_contain_text("Running", timeout=MESH_MS)
    expect(texts).to_have_count(0)
    expect(page.get_by_role("region", name="Recordings")).to_have_count(0)

    held_site.release.set()

    expect(collector.locator(".member-state")).to_have_text("Done", timeout=MESH_MS)
    expect(collector).to_contain_text("2 found")
    expect(texts).to_have_count(2)
    expect(texts.nth(0)).to_contain_text(HOSTILE)
    expect(texts.nth(0)).to_contain_text("Feb 3, 2026 · Brazilian Portuguese")
    expect(texts.nth(0).get_by_role("link")).to_have_attribute("href", "http://a.test/1")
    report = page.locator(".subtask").filter(has_text="relatorio")
    expect(report).to_contain_text("Executor")
    expect(report).to_contain_text("everything collected")
    expect(report.locator(".member-state")).to_have_text("Done", timeout=MESH_MS)
    expect(report).to_contain_text("formato: md")
    expect(page.locator(".outcome")).to_have_text(
        "Complete: everything that was asked for is there."
    )
    with page.expect_download() as download:
        report.get_by_role("link").click()
    assert download.value.suggested_filename == "Two posts.md"
    content = download.value.path().read_text()
    assert "Texto do um." in content
    assert "Texto do dois." in content

    page.reload()

    expect(texts).to_have_count(2)
    expect(page.locator(".subtask").get_by_role("link")).to_have_count(1)
    expect(rows.first).to_contain_text("Done")
    assert page.evaluate("window.hit") is None


def test_a_collection_without_subtasks_shows_neither_of_the_sections(page: Page) -> None:
    members = [member(1, "completed")]
    serve_collection(page, collection(members), members)

    page.goto(f"/#/collection/{ID}")

    expect(page.locator(".member")).to_have_count(1)
    expect(page.get_by_role("region", name="Recordings")).to_be_visible()
    expect(page.get_by_role("region", name="Subtasks")).to_have_count(0)
    expect(page.get_by_role("region", name="Documents")).to_have_count(0)


def test_failures_are_in_words_and_what_strangers_send_stays_text(page: Page) -> None:
    subtasks = subtasks_of_every_state()
    subtasks[0]["type"] = subtasks[6]["result"]["arquivo"] = HOSTILE
    subtasks[6]["files"][0]["name"] = "a/b?.md"
    documents = [
        document(1, url="javascript:window.hit=1", title=HOSTILE, language="<b>x"),
        document(2, url="", title=""),
    ]
    found = collection([], subtask_count=len(subtasks), document_count=2, state="partial")
    serve_collection(page, found, [], subtasks, documents)

    page.goto(f"/#/collection/{ID}")

    rows, texts = page.locator(".subtask"), page.locator(".document")
    expect(rows).to_have_count(9)
    expect(rows.nth(0)).to_contain_text(HOSTILE)
    expect(rows.nth(1)).to_contain_text("Running · 42%")
    expect(rows.nth(1)).to_contain_text("one found · Attempt 2")
    expect(rows.nth(6)).to_contain_text(f"Result: documentos: 2 · arquivo: {HOSTILE}")
    link = rows.nth(6).get_by_role("link")
    expect(link).to_have_accessible_name("a/b?.md 123 kB")
    href = link.get_attribute("href") or ""
    assert href.endswith(f"/collections/{ID}/subtasks/7/files/a%2Fb%3F.md")
    expect(rows.nth(7)).to_contain_text("document 2 · Attempt 3")
    expect(rows.nth(7)).to_contain_text("An executor refused.")
    expect(rows.nth(7)).to_contain_text("What the service said: the model says no")
    expect(rows.nth(8)).to_contain_text("recording 1")
    expect(rows.nth(8)).to_contain_text("Done, late")
    expect(texts.nth(0)).to_contain_text(HOSTILE)
    expect(texts.nth(0)).to_contain_text("<b>x")
    expect(texts.nth(1)).to_contain_text("Untitled document")
    expect(texts.get_by_role("link")).to_have_count(0)
    assert page.evaluate("window.hit") is None

    page.get_by_label("Language of this page").select_option("pt-BR")

    expect(rows.nth(7)).to_contain_text("Executador")
    expect(rows.nth(7)).to_contain_text("documento 2 · Tentativa 3")
    expect(page.get_by_role("heading", name="Documentos 2")).to_be_visible()


def test_a_change_updates_its_row_alone_and_a_long_list_grows_by_keyboard(page: Page) -> None:
    subtasks = [subtask(number, "running", found=number) for number in range(1, 31)]
    begun = collection([], state="running", settled=False, subtask_count=30)
    sent = [("subtask", event_id, one) for event_id, one in enumerate(reversed(subtasks), 1)]
    responses = [events(("collection", 0, begun), *sent)]

    def stream_events(route: Route) -> None:
        body = responses.pop(0) if responses else events()
        route.fulfill(body=body, content_type="text/event-stream")

    page.route(f"**/collections/{ID}?*", lambda route: route.fulfill(json=begun))
    page.route(f"**/collections/{ID}/events*", stream_events)
    page.goto(f"/#/collection/{ID}")
    rows = page.locator(".subtask")
    expect(page.get_by_role("heading", name="Subtasks 30")).to_be_visible()
    expect(rows).to_have_count(20)
    expect(rows.nth(19)).to_contain_text("20 found")
    rows.nth(4).evaluate("row => { row.kept = true; }")

    responses.append(events(("subtask", 31, subtask(5, "completed", found=77))))

    expect(rows.nth(4)).to_contain_text("77 found")
    expect(rows.nth(4)).to_contain_text("Done")
    assert rows.nth(4).evaluate("row => row.kept")
    more = page.get_by_role("button", name="Show more")
    more.focus()
    page.keyboard.press("Enter")
    expect(rows).to_have_count(30)
    expect(rows.nth(20)).to_be_focused()
    expect(rows.nth(29)).to_contain_text("30 found")
    expect(more).to_be_hidden()
