"""JSON, Markdown and HTML, read back by parsers that are not ours."""

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import html5lib
import pytest
from markdown_it import MarkdownIt

from reports.document import JsonReport
from reports.markdown import MarkdownReport, plain
from reports.model import Collection, Member, MemberState, Text
from reports.page import HtmlReport
from tests.reports.samples import COLLECTION, EMPTY, HOSTILE, HOSTILE_TEXT, SHOWN, TEXTS

WRITERS = [JsonReport, MarkdownReport, HtmlReport]
Writer = type[JsonReport] | type[MarkdownReport] | type[HtmlReport]


def parts(kind: Writer, collection: Collection) -> Iterator[str]:
    writer = kind()
    yield from writer.begin(collection)
    for member in collection.members:
        yield from writer.member(member, TEXTS.get(member.number, Text("word " * 1000, True)))
    yield from writer.end()


def written(kind: Writer, collection: Collection) -> str:
    return "".join(parts(kind, collection))


def test_json_holds_every_field_unchanged() -> None:
    report = json.loads(written(JsonReport, COLLECTION))
    collection, members = report["collection"], report["members"]
    assert report["schema_version"] == 1
    assert (collection["title"], collection["state"]) == ("October | <b>", "PARTIAL")
    assert collection["counts"] == {"COMPLETED": 2, "PENDING": 1, "FAILED": 1}
    assert collection["deadline"] == "2026-11-16T18:55:00Z"
    assert collection["listings"][1]["failure"]["reason"] == "RATE_LIMITED"
    assert members[0]["title"] == HOSTILE
    assert members[0]["text"] == HOSTILE_TEXT
    assert (members[0]["late"], members[0]["duration_seconds"]) == (True, 3723.4)
    assert members[1]["failure"]["reason"] == "VIDEO_PRIVATE"
    assert members[3]["text_complete"] is False


def test_json_of_an_empty_collection_is_json() -> None:
    report = json.loads(written(JsonReport, EMPTY))
    assert report["members"] == []
    assert report["collection"]["end_time"] is None


@pytest.mark.parametrize("kind", WRITERS)
def test_a_report_summarises_what_is_missing(kind: Writer) -> None:
    text = written(kind, COLLECTION).replace("\\", "")
    assert "Partial; late results may still come. 2 of 4 recordings completed" in text
    assert "(1 pending, 1 failed); 1 ended after the deadline; 1 listing broke off." in text


@pytest.mark.parametrize("kind", WRITERS)
def test_a_report_of_a_running_collection_says_so(kind: Writer) -> None:
    assert "Still running and sources are still being listed" in written(kind, EMPTY)


def rendered(source: str) -> Any:
    html = MarkdownIt("gfm-like", {"linkify": False}).render(source)
    return html5lib.parse(html, treebuilder="etree", namespaceHTMLElements=False)


def words(element: Any) -> str:
    return "".join(element.itertext())


def test_markdown_has_no_markup_but_ours() -> None:
    tree = rendered(written(MarkdownReport, COLLECTION))
    assert not list(tree.iter("script")) + list(tree.iter("img")) + list(tree.iter("code"))
    assert [a.get("href") for a in tree.iter("a")] == [
        "https://site.test/1?a=b&c=%27%22%3E%3Cd",
        "https://site.test/2",
        "https://site.test/4",
    ]
    assert [words(h) for h in tree.iter("h2")][:2] == ["Recordings", f"1. {SHOWN}"]
    assert not list(tree.iter("ol")) + list(tree.iter("blockquote")) + list(tree.iter("hr"))


def test_markdown_keeps_its_table_and_paragraphs_whole() -> None:
    tree = rendered(written(MarkdownReport, COLLECTION))
    rows = [[words(cell) for cell in row] for row in tree.iter("tr")]
    assert rows[1] == ["1", SHOWN, "completed (late)", "1:02:03", "pt-BR", ""]
    assert rows[2][5] == "VIDEO_PRIVATE"
    assert len(rows) == 5
    spoken = [words(p) for p in tree.iter("p")]
    assert all(paragraph in spoken for paragraph in HOSTILE_TEXT.split("\n\n"))
    assert "VIDEO_PRIVATE in download: Only its <owner> may see it." in words(tree)


@pytest.mark.parametrize("text", ["https://a.b", "WWW.a.b", "a@b.c", "<http://a.b>"])
def test_markdown_turns_no_untrusted_text_into_links(text: str) -> None:
    # linkify needs a package of its own; what GitHub looks for is not there.
    escaped = plain(text)
    assert "://" not in escaped
    assert "www." not in escaped.lower()
    assert words(rendered(escaped)).strip() == text


def page(collection: Collection) -> Any:
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    return parser.parse(written(HtmlReport, collection))


def test_html_is_valid_and_has_no_markup_but_ours() -> None:
    tree = page(COLLECTION)
    found = {element.tag for element in tree.iter()}
    assert not found & {"script", "img", "iframe", "b", "link", "form"}
    assert words(next(tree.iter("h1"))) == "October | <b>"
    assert next(words(h) for h in tree.iter("h3")) == f"1. {SHOWN}"
    assert all(not name.startswith("on") for element in tree.iter() for name in element.attrib)


def test_html_loads_and_runs_nothing() -> None:
    policies = [
        meta.get("content")
        for meta in page(EMPTY).iter("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policies[0]


def test_html_contents_lead_to_every_member() -> None:
    tree = page(COLLECTION)
    ids = {element.get("id") for element in tree.iter()}
    targets = [a.get("href") for a in next(tree.iter("table")).iter("a")]
    assert targets == ["#m1", "#m2", "#m3", "#m4"]
    assert {target[1:] for target in targets} <= ids


def test_html_links_only_to_the_web() -> None:
    outside = [
        a.get("href") for a in page(COLLECTION).iter("a") if not a.get("href").startswith("#")
    ]
    assert outside == [
        "https://site.test/1?a=b&c=%27%22%3E%3Cd",
        "https://site.test/2",
        "https://site.test/4",
    ]
    assert "javascript:alert(1)" in words(page(COLLECTION))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_thousand_texts_are_never_held_at_once(kind: Writer) -> None:
    members = tuple(
        Member(number, f"https://site.test/{number}", MemberState.COMPLETED, f"Talk {number}")
        for number in range(1001, 2001)
    )
    large = replace(COLLECTION, members=members)
    tracemalloc.start()
    try:
        size = sum(map(len, parts(kind, large)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 5_000_000
    assert peak < 2_000_000
