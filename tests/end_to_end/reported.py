"""Checks of the reports over the thirty recordings, with third-party parsers."""

import io
import json
import zipfile
from typing import Any

import html5lib
from markdown_it import MarkdownIt
from pypdf import PdfReader

from tests.end_to_end.channel import BROKEN, BUSY, FAILING, HANGING, MEMBERS, Channel
from tests.support.client import Client
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import media_pb2

SUMMARY = "27 of 30 recordings completed (3 failed); 2 ended after the deadline"


async def fetched(
    client: Client, collection_id: str, format_: "pb.ReportFormat.ValueType", media_type: str
) -> bytes:
    request = pb.GetReportRequest(
        collection_id=collection_id,
        format=format_,
        caption_format=media_pb2.CAPTION_FORMAT_SRT,
    )
    frames = [frame async for frame in client.collections.GetReport(request)]

    assert frames[0].media_type.startswith(media_type)
    assert frames[0].file_name.startswith("Thirty talks.")
    assert all(len(frame.chunk) <= 64 * 1024 for frame in frames)
    return b"".join(frame.chunk for frame in frames)


async def json_report(client: Client, collection_id: str) -> dict[str, Any]:
    report = await fetched(client, collection_id, pb.REPORT_FORMAT_JSON, "application/json")
    found: dict[str, Any] = json.loads(report)
    return found


async def assert_reports(client: Client, channel: Channel, collection_id: str) -> None:
    """Checks all five formats of the settled collection."""
    report = await json_report(client, collection_id)
    _assert_json(report, channel)
    markdown = await fetched(client, collection_id, pb.REPORT_FORMAT_MARKDOWN, "text/markdown")
    html = MarkdownIt("gfm-like", {"linkify": False}).render(markdown.decode())
    _assert_page(html, channel)
    page = await fetched(client, collection_id, pb.REPORT_FORMAT_HTML, "text/html")
    _assert_page(page.decode(), channel)
    pdf = await fetched(client, collection_id, pb.REPORT_FORMAT_PDF, "application/pdf")
    _assert_pdf(pdf, channel)
    archive = await fetched(client, collection_id, pb.REPORT_FORMAT_ZIP, "application/zip")
    _assert_zip(archive, report)


def _assert_json(report: dict[str, Any], channel: Channel) -> None:
    collection, members = report["collection"], report["members"]
    assert (collection["state"], collection["settled"]) == ("PARTIAL", True)
    assert collection["counts"] == {"COMPLETED": 27, "FAILED": 3}
    assert (collection["member_count"], collection["late_count"]) == (MEMBERS, 2)
    assert SUMMARY in collection["summary"]
    assert [member["number"] for member in members] == list(range(1, MEMBERS + 1))
    for member in members:
        number = member["number"]
        failure = member["failure"] or {"reason": ""}
        assert member["title"] == channel.title(number)
        assert member["url"] == channel.address(number)
        assert member["state"] == ("FAILED" if number in FAILING else "COMPLETED")
        assert member["attempt"] == (3 if number in (BUSY, BROKEN) else 1)
        assert member["late"] == (number in HANGING)
        assert failure["reason"] == FAILING.get(number, "")
        assert bool(member["text"]) == (number not in FAILING)
    assert "welcome" in members[0]["text"].lower()


def _assert_page(source: str, channel: Channel) -> None:
    tree = html5lib.parse(source, treebuilder="etree", namespaceHTMLElements=False)
    _assert_words("".join(tree.itertext()), channel)
    links = {link.get("href") for link in tree.iter("a")}
    assert links >= {channel.address(number) for number in range(1, MEMBERS + 1)}


def _assert_pdf(pdf: bytes, channel: Channel) -> None:
    _assert_words(
        " ".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages), channel
    )


def _assert_words(text: str, channel: Channel) -> None:
    words = " ".join(text.split())
    assert SUMMARY in words
    for number in range(1, MEMBERS + 1):
        assert channel.title(number) in words
    for reason in FAILING.values():
        assert reason in words


def _assert_zip(archive: bytes, report: dict[str, Any]) -> None:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert opened.testzip() is None
        *captions, readme = sorted(opened.namelist())
        readme_text = opened.read(readme).decode()
        first = opened.read(captions[0]).decode()
    completed = [member["number"] for member in report["members"] if member["state"] == "COMPLETED"]
    assert [int(name[:3]) for name in captions] == completed
    assert all(name.endswith(".srt") for name in captions)
    assert "-->" in first
    assert SUMMARY in readme_text
    for reason in FAILING.values():
        assert reason in readme_text
