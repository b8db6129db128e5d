"""The PDF, read back by another library."""

import asyncio
import io
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from pypdf import PdfReader

from reports import pdf_process, typesetting
from reports.model import Collection, Member, Text
from reports.pdf import PdfReport
from reports.pdf_process import PdfError, PdfUnavailableError, render_pdf
from reports.typesetting import lines_here, main_fonts
from tests.reports.samples import COLLECTION, EMPTY, SHOWN, TEXTS
from tests.support.processes import command_line

A4 = (595, 842)
ROOT = Path(__file__).parents[2]


def made(collection: Collection, texts: dict[int, Text] = TEXTS) -> PdfReader:
    with main_fonts() as found:
        report = PdfReport(collection, found)
        for member in collection.members:
            report.member(member, texts[member.number])
        return PdfReader(io.BytesIO(report.end()))


@pytest.fixture(scope="module")
def pdf() -> PdfReader:
    return made(COLLECTION)


def words(pdf: PdfReader) -> str:
    # pypdf reads the two-byte codes of the East Asian font as a zero and a character.
    text = " ".join(page.extract_text() for page in pdf.pages).replace("\0", "")
    return " ".join(text.split())


def test_the_text_can_be_extracted_in_every_script(pdf: PdfReader) -> None:
    text = words(pdf)
    for expected in (
        SHOWN,
        "Ιδιωτικό",
        "Привет, мир.",
        "Καλημέρα.",
        "日本語の文。",
        "October | <b>",
    ):
        assert expected in text
    assert "VIDEO_PRIVATE in download: Only its <owner> may see it." in text
    assert "Listing broke off after 1: ytsearch5:cats RATE_LIMITED: Slow <down>." in text
    assert "2 of 4 recordings completed" in text


def test_characters_no_font_has_are_boxes_and_counted(pdf: PdfReader) -> None:
    assert "Characters shown as ▯ here: 1. No font of this document has them" in words(pdf)


def test_pages_are_a4_and_numbered(pdf: PdfReader) -> None:
    count = len(pdf.pages)
    assert count >= 2
    for number, page in enumerate(pdf.pages, start=1):
        assert tuple(map(round, page.mediabox[2:])) == A4
        assert f"Page {number} of {count}" in page.extract_text()


def test_the_outline_has_every_member(pdf: PdfReader) -> None:
    titles = [entry.title for part in pdf.outline for entry in _flat(part)]
    assert titles[:3] == ["Summary", "Recordings", "Texts"]
    assert titles[3] == f"1. {SHOWN}"
    assert len(titles) == 7


def _flat(part: Any) -> list[Any]:
    return [entry for one in part for entry in _flat(one)] if isinstance(part, list) else [part]


def test_links_point_to_the_web_and_to_members(pdf: PdfReader) -> None:
    notes = [note.get_object() for page in pdf.pages for note in page.get("/Annots", [])]
    outside = {note["/A"]["/URI"] for note in notes if "/A" in note}
    assert outside == {
        "https://site.test/1?a=b&c=%27%22%3E%3Cd",
        "https://site.test/2",
        "https://site.test/4",
    }
    assert len([note for note in notes if "/Dest" in note]) >= 4


def test_long_texts_and_endless_words_stay_between_the_margins() -> None:
    member = replace(COLLECTION.members[0], number=1, title="w" * 500)
    long = "x" * 3000 + " " + "word " * 3000
    report = made(replace(COLLECTION, members=(member,)), {1: Text(long, True)})
    assert len(report.pages) > 3
    right = [0.0]
    for page in report.pages:
        page.extract_text(visitor_text=lambda text, cm, tm, *_: right.append(tm[4]))
    assert max(right) < A4[0]
    assert words(report).replace(" ", "").count("x") >= 3000


@pytest.mark.parametrize("room", range(-1, 12))
def test_no_line_of_a_paragraph_is_alone_where_a_page_ends_or_begins(room: int) -> None:
    for count in range(1, 30):
        here = lines_here(count, room)
        assert here <= max(room, 0)
        assert here in (0, count) or (here >= 2 and count - here >= 2)
        assert here or room < min(count, 4)  # a page is not left empty


def test_an_empty_collection_is_a_page_that_says_so() -> None:
    report = made(EMPTY)
    assert len(report.pages) == 1
    assert "There are no recordings in this collection." in words(report)


def test_without_the_east_asian_font_the_document_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typesetting, "find_spec", lambda _: None)
    assert "Characters shown as ▯ here: 10." in words(made(COLLECTION))


async def texts_of(collection: Collection) -> AsyncIterator[tuple[Member, Text]]:
    for member in collection.members:
        yield member, TEXTS[member.number]


async def test_the_pdf_process_renders_the_same_file(pdf: PdfReader) -> None:
    chunks = [chunk async for chunk in render_pdf(COLLECTION, texts_of(COLLECTION))]
    assert words(PdfReader(io.BytesIO(b"".join(chunks)))) == words(pdf)


async def test_a_failed_pdf_process_says_why() -> None:
    async def nonsense() -> AsyncIterator[tuple[Member, Text]]:
        yield replace(COLLECTION.members[0], number=99), Text()

    with pytest.raises(PdfError, match="KeyError: 99"):
        [chunk async for chunk in render_pdf(COLLECTION, nonsense())]


async def test_closing_the_stream_kills_the_pdf_process() -> None:
    waits = asyncio.Event()

    async def endless() -> AsyncIterator[tuple[Member, Text]]:
        yield COLLECTION.members[0], Text()
        waits.set()
        await asyncio.Event().wait()

    async def listen() -> None:
        async for _ in render_pdf(COLLECTION, endless()):
            pass

    listening = asyncio.create_task(listen())
    await waits.wait()
    (child,) = [p for p in psutil.Process().children() if "reports" in command_line(p)]
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert not child.is_running()


async def test_without_the_pdf_extra_rendering_is_refused_before_a_process_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_process(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(pdf_process, "missing_modules", lambda: ["fpdf"])
    monkeypatch.setattr(asyncio, "create_subprocess_exec", no_process)

    with pytest.raises(PdfUnavailableError, match=r"ytcaption\[pdf\].*missing: fpdf"):
        await anext(render_pdf(COLLECTION, texts_of(COLLECTION)))


def test_reports_are_imported_without_the_pdf_engine_and_its_fonts() -> None:
    script = """
import sys
for name in ("fpdf", "uharfbuzz", "pymupdf_fonts", "noto_cjk_sans_otc"):
    sys.modules[name] = None
import reports.archive, reports.document, reports.markdown, reports.page, reports.pdf_process
print(reports.pdf_process.REQUIRED_MODULES)
"""

    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True)
