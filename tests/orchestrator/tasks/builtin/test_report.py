"""The executor `relatorio` makes one report of recordings, documents and what is missing."""

import io
import json
import os
from pathlib import Path

import pytest
from pypdf import PdfReader

from orchestrator.tasks.builtin.report import CollectionReport
from tests.orchestrator.tasks.builtin.made import Made, made_by
from ytcaption.v1 import collection_pb2, job_pb2, media_pb2, task_pb2
from ytcaption.v1 import executor_service_pb2 as pb

COLLECTION = collection_pb2.Collection(
    collection_id="c-1", title="Outubro", state=collection_pb2.COLLECTION_STATE_PARTIAL
)
COLLECTION.create_time.GetCurrentTime()
DONE, FAILED = collection_pb2.MEMBER_STATE_COMPLETED, collection_pb2.MEMBER_STATE_FAILED
ITEMS = [
    pb.ExecuteRequest(member=collection_pb2.Member(number=2, title="Dois", state=DONE)),
    pb.ExecuteRequest(segments=pb.MemberSegments(member=2, text="Texto do dois.\n\nE mais")),
    pb.ExecuteRequest(segments=pb.MemberSegments(member=2, text="ainda.")),
    pb.ExecuteRequest(
        document=task_pb2.Document(
            number=1,
            title="Um <artigo>",
            url="https://blog.test/1",
            text="Texto do artigo.",
            language="pt",
            publish_date="2025-10-03",
        )
    ),
    pb.ExecuteRequest(
        missing=collection_pb2.Member(
            number=3,
            title="Três",
            state=FAILED,
            failure=job_pb2.Failure(reason="VIDEO_PRIVATE", message="not yours"),
        )
    ),
    pb.ExecuteRequest(member=collection_pb2.Member(number=1, title="Um", state=DONE)),
    pb.ExecuteRequest(
        segments=pb.MemberSegments(
            member=1, segments=[media_pb2.Segment(text=" Texto"), media_pb2.Segment(text="do um.")]
        )
    ),
    pb.ExecuteRequest(document=task_pb2.Document(number=2, text="Sem título.")),
]


async def report(tmp_path: Path, format_: str, items: list[pb.ExecuteRequest]) -> Made:
    return await made_by(CollectionReport(tmp_path), items, {"formato": format_}, COLLECTION)


async def test_the_report_has_every_text_and_the_result_counts_them(tmp_path: Path) -> None:
    made = await report(tmp_path, "json", ITEMS)

    written = json.loads(made.files["Outubro.json"])
    assert [one["text"] for one in written["members"]] == [
        "Texto do um.",
        "Texto do dois.\n\nE mais ainda.",
        "",
    ]
    assert written["members"][2]["failure"]["reason"] == "VIDEO_PRIVATE"
    assert written["documents"] == [
        {
            "number": 1,
            "subtask": 0,
            "url": "https://blog.test/1",
            "title": "Um <artigo>",
            "language": "pt",
            "publish_date": "2025-10-03",
            "text": "Texto do artigo.",
        },
        {
            "number": 2,
            "subtask": 0,
            "url": "",
            "title": "",
            "language": "",
            "publish_date": "",
            "text": "Sem título.",
        },
    ]
    assert made.result == {
        "formato": "json",
        "arquivo": "Outubro.json",
        "membros": 3,
        "com_texto": 2,
        "faltando": 1,
        "documentos": 2,
    }
    assert not os.listdir(tmp_path)  # noqa: PTH208 # nothing is left


@pytest.mark.parametrize("format_", ["md", "html"])
async def test_a_page_has_every_text_once_and_no_markup_of_strangers(
    tmp_path: Path, format_: str
) -> None:
    made = await report(tmp_path, format_, ITEMS)

    text = made.files[f"Outubro.{format_}"].decode()
    for words in ("Texto do um.", "Texto do dois.", "Texto do artigo.", "Sem título."):
        assert text.count(words) == 1
    assert "VIDEO" in text
    assert text.index("Texto do dois.") < text.index(
        "Documents</h2>" if format_ == "html" else "## Documents"
    )
    assert "<artigo>" not in text.replace("\\<artigo\\>", "")


async def test_a_pdf_has_the_documents_too(tmp_path: Path) -> None:
    made = await report(tmp_path, "pdf", ITEMS)

    pages = PdfReader(io.BytesIO(made.files["Outubro.pdf"])).pages
    text = " ".join(page.extract_text() for page in pages)
    assert "Texto do um." in text
    assert "Texto do artigo." in text
    assert made.media_types == {"Outubro.pdf": "application/pdf"}


@pytest.mark.parametrize("format_", ["json", "md", "html"])
async def test_documents_alone_make_a_report(tmp_path: Path, format_: str) -> None:
    made = await report(tmp_path, format_, [ITEMS[3]])

    assert b"Texto do artigo." in made.files[f"Outubro.{format_}"]
    if format_ == "json":
        assert json.loads(made.files["Outubro.json"])["members"] == []


async def test_a_long_report_comes_in_frames(tmp_path: Path) -> None:
    many = [
        pb.ExecuteRequest(document=task_pb2.Document(number=one, text=f"{one} " * 20_000))
        for one in range(1, 6)
    ]

    made = await report(tmp_path, "json", many)

    assert len(json.loads(made.files["Outubro.json"])["documents"]) == 5
