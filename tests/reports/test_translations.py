"""Texts in two languages, each under its own heading; only real translations are labelled so."""

import io
import json
import zipfile
from dataclasses import replace
from typing import Any

import html5lib
import pytest
from markdown_it import MarkdownIt
from pypdf import PdfReader

from reports.archive import CaptionsZip
from reports.document import JsonReport
from reports.markdown import MarkdownReport
from reports.model import Member, Text, Translation
from reports.page import HtmlReport
from reports.pdf import PdfReport
from reports.typesetting import main_fonts
from tests.reports.samples import COLLECTION, HOSTILE_TEXT, MEMBERS, SHOWN, TEXTS, TRANSLATED

ASKED = replace(COLLECTION, language_out="en", language_out_name="English (en)")
MADE = {**TEXTS, 1: TRANSLATED}
ORIGINAL, TRANSLATION = "Original: Portuguese (pt-BR)", "Translation: English (en)"
WRITERS = [JsonReport, MarkdownReport, HtmlReport]
Writer = type[JsonReport] | type[MarkdownReport] | type[HtmlReport]


def written(kind: Writer, texts: dict[int, Text]) -> str:
    writer = kind()
    parts = [*writer.begin(ASKED)]
    for member in ASKED.members:
        parts += writer.member(member, texts[member.number])
    return "".join([*parts, *writer.end()])


def tree_of(source: str) -> Any:
    return html5lib.parse(source, treebuilder="etree", namespaceHTMLElements=False)


def words(element: Any) -> str:
    return "".join(element.itertext())


def test_json_has_the_translation_beside_the_text() -> None:
    report = json.loads(written(JsonReport, MADE))
    first, *others = report["members"]
    assert (report["schema_version"], report["collection"]["language_out"]) == (1, "en")
    assert first["text"] == "Olá a todos.\n\nAté breve."
    assert first["translation"] == {"language": "en", "text": HOSTILE_TEXT}
    assert [member["translation"] for member in others] == [None, None, None]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_requested_but_missing_translation_is_not_labelled_as_one(kind: Writer) -> None:
    report = written(kind, TEXTS)
    assert "English (en)" in report or kind is JsonReport  # the request itself is shown
    assert not [label for label in ("Original", "Translated", "Translation:") if label in report]


@pytest.mark.parametrize("kind", WRITERS)
def test_members_without_a_translation_look_as_before(kind: Writer) -> None:
    member = MEMBERS[3]
    among, alone = (written(kind, texts) for texts in (MADE, TEXTS))
    section = "".join(kind().member(member, TEXTS[4])).strip()
    assert section in among
    assert section in alone


def test_markdown_has_both_texts_each_below_its_heading() -> None:
    tree = tree_of(MarkdownIt("gfm-like", {"linkify": False}).render(written(MarkdownReport, MADE)))
    blocks = [words(each) for each in tree.iter() if each.tag in ("h2", "h3", "p")]
    begin = blocks.index(ORIGINAL)
    assert blocks[begin - 1] == f"1. {SHOWN}"
    assert blocks[begin + 1 : begin + 4] == ["Olá a todos.", "Até breve.", TRANSLATION]
    assert blocks[begin + 4 : begin + 8] == HOSTILE_TEXT.split("\n\n")
    assert [words(each) for each in tree.iter("h3")] == [ORIGINAL, TRANSLATION]
    assert not list(tree.iter("img")) + list(tree.iter("ol")) + list(tree.iter("blockquote"))


def test_html_has_both_texts_marked_with_their_languages() -> None:
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree = parser.parse(written(HtmlReport, MADE))
    sections = list(tree.iter("section"))
    assert [words(next(each.iter("h4"))) for each in sections] == [ORIGINAL, TRANSLATION]
    texts = [next(each.iter("div")) for each in sections]
    assert [text.get("lang") for text in texts] == ["pt-BR", "en"]
    assert [words(p) for p in texts[0]] == ["Olá a todos.", "Até breve."]
    assert [words(p) for p in texts[1]] == HOSTILE_TEXT.split("\n\n")
    (skip,) = [a.get("href") for a in tree.iter("a") if words(a) == "To the translation"]
    assert skip == f"#{next(sections[1].iter('h4')).get('id')}"
    assert "img" not in {element.tag for element in tree.iter()}


def pdf_of(member: Member, text: Text) -> PdfReader:
    with main_fonts() as fonts:
        report = PdfReport(replace(ASKED, members=(member,)), fonts)
        report.member(member, text)
        return PdfReader(io.BytesIO(report.end()))


def test_the_pdf_has_both_texts_and_a_bookmark_for_each() -> None:
    long = "\n\n".join(f"Sentence {number} of many. " * 30 for number in range(40))
    text = replace(TRANSLATED, translation=Translation("en", long, "English (en)"))
    pdf = pdf_of(replace(MEMBERS[0], upload_date="2026-10-01"), text)
    pages = [page.extract_text() for page in pdf.pages]
    begins = next(place for place, page in enumerate(pages) if TRANSLATION in page)
    assert "Até breve." in pages[begins]
    assert "Sentence 0" in pages[begins]
    assert "Sentence 39" in pages[-1]
    member: Any = pdf.outline[-1][-1]
    assert [entry.title for entry in member] == [ORIGINAL, TRANSLATION]
    assert pdf.get_destination_page_number(member[1]) == begins
    lines = pages[begins].splitlines()
    assert any("Translated into en" in line for line in lines)
    assert not any("Translated into" in line and "Ended" in line for line in lines)  # no room


def test_the_zip_has_the_translation_under_a_name_of_its_own() -> None:
    archive = CaptionsZip(ASKED)
    sent = archive.add(MEMBERS[3], "Привет".encode(), "srt")
    sent += archive.add(MEMBERS[3], b"Hello", "srt", "en", "English (en)")
    with zipfile.ZipFile(io.BytesIO(sent + archive.end())) as opened:
        original, english, readme = opened.namelist()
        assert english == f"{original.removesuffix('.srt')}.en.srt"
        assert opened.read(english) == b"Hello"
        listing = opened.read(readme).decode()
    assert f"{original}\n{english}\n    translation: English (en)\n" in listing
    assert "Translation requested: English (en)\n" in listing
