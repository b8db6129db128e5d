"""Reports of collections over HTTP: passed on as they come, and harmless."""

import httpx2
import pytest

from tests.gateway.gathering import ID, Gathering
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import media_pb2


async def test_a_report_is_passed_on_as_it_comes_and_can_do_nothing(
    caller: httpx2.AsyncClient, gathering: Gathering
) -> None:
    gathering.report = [
        pb.GetReportResponse(chunk=b"<p>", media_type="text/html", file_name="Março: 1/2.html"),
        pb.GetReportResponse(chunk=b"<script>alert(1)</script>"),
    ]

    answer = await caller.get(f"/collections/{ID}/report", params={"format": "html"})
    saved = await caller.get(
        f"/collections/{ID}/report", params={"format": "html", "download": True}
    )

    assert answer.content == b"<p><script>alert(1)</script>"
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none';")
    assert "script-src" not in policy
    assert "allow" not in policy
    assert answer.headers["Content-Disposition"].startswith('inline; filename="Mar_o_ 1_2.html"')
    assert saved.headers["Content-Disposition"].startswith("attachment;")


@pytest.mark.parametrize(
    ("format", "kind", "name"),
    [
        ("json", "application/json", "json"),
        ("markdown", "text/markdown; charset=utf-8", "md"),
        ("pdf", "application/pdf", "pdf"),
        ("zip", "application/zip", "zip"),
    ],
)
async def test_every_format_of_a_report_has_its_type_and_name_and_all_but_pdf_are_sealed(
    caller: httpx2.AsyncClient, gathering: Gathering, format: str, kind: str, name: str
) -> None:
    gathering.report = [pb.GetReportResponse(chunk=b"{}")]

    wish = {"format": format, "captions": "vtt"}
    answer = await caller.get(f"/collections/{ID}/report", params=wish)

    asked = gathering.asked[0]
    assert pb.ReportFormat.Name(asked.format) == f"REPORT_FORMAT_{format.upper()}"
    assert asked.caption_format == media_pb2.CAPTION_FORMAT_VTT
    assert answer.headers["Content-Type"] == kind
    how = "attachment" if format == "zip" else "inline"
    assert answer.headers["Content-Disposition"] == f'{how}; filename="{ID}.{name}"'
    sealed = "sandbox" in answer.headers["Content-Security-Policy"]
    assert sealed == (format != "pdf"), "browsers show no PDF in a sandbox"
