"""Reports of collections over HTTP: streamed and sandboxed."""

import httpx2
import pytest

from tests.support.controlled_collections import ID, ControlledCollection
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import media_pb2


async def test_a_report_is_streamed_and_sandboxed(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    collection.report = [
        pb.GetReportResponse(chunk=b"<p>", media_type="text/html", file_name="Março: 1/2.html"),
        pb.GetReportResponse(chunk=b"<script>alert(1)</script>"),
    ]

    answer = await fake_http.get(f"/collections/{ID}/report", params={"format": "html"})
    saved = await fake_http.get(
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
async def test_every_report_format_has_its_type_and_name_and_all_but_pdf_are_sandboxed(
    fake_http: httpx2.AsyncClient,
    collection: ControlledCollection,
    format: str,
    kind: str,
    name: str,
) -> None:
    collection.report = [pb.GetReportResponse(chunk=b"{}")]

    query = {"format": format, "captions": "vtt"}
    answer = await fake_http.get(f"/collections/{ID}/report", params=query)

    request = collection.requests[0]
    assert pb.ReportFormat.Name(request.format) == f"REPORT_FORMAT_{format.upper()}"
    assert request.caption_format == media_pb2.CAPTION_FORMAT_VTT
    assert answer.headers["Content-Type"] == kind
    how = "attachment" if format == "zip" else "inline"
    assert answer.headers["Content-Disposition"] == f'{how}; filename="{ID}.{name}"'
    sandboxed = "sandbox" in answer.headers["Content-Security-Policy"]
    assert sandboxed == (format != "pdf"), "browsers show no PDF in a sandbox"
