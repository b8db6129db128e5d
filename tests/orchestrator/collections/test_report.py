"""Reports of collections: real jobs, transcripts and a real broker; projections made by hand."""

import io
import json
import zipfile
from contextlib import aclosing

import pytest
from google.protobuf.duration import from_seconds
from google.protobuf.timestamp import from_current_time
from pypdf import PdfReader

from mesh.bus import Bus
from mesh.errors import NotFoundError, UnsupportedError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from orchestrator.collections.projection import Projection
from orchestrator.collections.report import Report, Reports
from orchestrator.jobs.artifacts import Artifacts
from orchestrator.jobs.caption_files import CaptionReader
from orchestrator.jobs.event_log import EventLogReader, EventLogWriter
from orchestrator.jobs.store import JobStore
from reports import pdf_process
from tests.support.client import Client
from tests.support.segments import transcribed_segment
from ytcaption.v1 import collection_pb2, collection_service_pb2, event_pb2, job_pb2, media_pb2

JOB = "0193a1b2-aaaa-7bbb-8ccc-00000000000{}"
SRT = media_pb2.CAPTION_FORMAT_SRT
JSON = collection_service_pb2.REPORT_FORMAT_JSON
PDF = collection_service_pb2.REPORT_FORMAT_PDF
ZIP = collection_service_pb2.REPORT_FORMAT_ZIP


@pytest.fixture
def projection() -> Projection:
    """Members: one completed, one whose job was deleted, one running, one pending."""
    collection = collection_pb2.Collection(
        collection_id="c1",
        correlation_id="corr",
        title="A/B: test",
        state=collection_pb2.COLLECTION_STATE_RUNNING,
        create_time=from_current_time(),
    )
    states = [
        collection_pb2.MEMBER_STATE_COMPLETED,
        collection_pb2.MEMBER_STATE_COMPLETED,
        collection_pb2.MEMBER_STATE_RUNNING,
        collection_pb2.MEMBER_STATE_PENDING,
    ]
    members = [
        collection_pb2.Member(
            number=number,
            title=f"Talk {number}",
            source_url=f"https://site.test/{number}",
            state=state,
            job_id=JOB.format(number) if number < 4 else "",
            duration=from_seconds(62),
        )
        for number, state in enumerate(states, start=1)
    ]
    projection = Projection()
    projection.restore(collection)
    projection.members = members
    return projection


@pytest.fixture
async def reporting(bus: Bus, client: Client, projection: Projection) -> Reports:
    jobs, artifacts = JobStore(bus), Artifacts(bus)
    for number, state in ((1, job_pb2.JOB_STATE_SUCCEEDED), (3, job_pb2.JOB_STATE_RUNNING)):
        job = job_pb2.Job(job_id=JOB.format(number), state=state, language="en")
        job.options.language_out = "de"
        job.source.url = f"https://site.test/{number}"
        await jobs.create(job_pb2.JobRecord(job=job))
    transcript = media_pb2.Transcript(language="en")
    transcript.segments.extend(transcribed_segment(second, words=False) for second in range(1, 4))
    await artifacts.put_transcript(JOB.format(1), transcript)

    async def read(collection_id: str) -> Projection:
        if collection_id != projection.collection.collection_id:
            raise NotFoundError("no such collection", reason=Reason.COLLECTION_NOT_FOUND)
        return projection

    return Reports(read, jobs, CaptionReader(artifacts, EventLogReader(bus)))


def translated(second: int) -> media_pb2.Segment:
    segment = transcribed_segment(second, words=False)
    segment.translation = f"Wort {second}"
    return segment


async def store_translated(bus: Bus, language_out: str) -> None:
    transcript = media_pb2.Transcript(language="en", language_out=language_out)
    transcript.segments.extend(map(translated, range(1, 4)))
    await Artifacts(bus).put_transcript(JOB.format(1), transcript)


async def sent(report: Report) -> bytes:
    chunks = [chunk async for chunk in report.chunks()]
    assert all(len(chunk) <= MAX_FRAME_BYTES for chunk in chunks)
    return b"".join(chunks)


async def test_a_report_contains_available_texts_and_explains_missing_ones(
    reporting: Reports,
) -> None:
    report = await reporting.report("c1", JSON, SRT)
    assert (report.media_type, report.file_name) == ("application/json", "A_B_ test.json")
    document = json.loads(await sent(report))
    members = document["members"]
    assert document["collection"]["state"] == "RUNNING"
    assert (members[0]["text"], members[0]["text_complete"]) == ("word 1 word 2 word 3", True)
    assert members[0]["duration_seconds"] == 62
    assert members[1]["note"] == "Its job was deleted meanwhile: there is no text."
    assert members[2]["note"] == "Nothing was heard of it yet."
    assert members[3]["note"] == "It was not begun: there is no text."


async def test_the_note_of_a_failed_recording_promises_no_more_text(
    reporting: Reports, projection: Projection
) -> None:
    projection.members[2].state = collection_pb2.MEMBER_STATE_FAILED
    document = json.loads(await sent(await reporting.report("c1", JSON, SRT)))
    assert document["members"][2]["note"] == "Nothing was heard of it."


@pytest.mark.parametrize(
    ("format_", "media_type", "beginning"),
    [
        (collection_service_pb2.REPORT_FORMAT_MARKDOWN, "text/markdown", b"# A/B: test"),
        (collection_service_pb2.REPORT_FORMAT_HTML, "text/html", b"<!DOCTYPE html>"),
        (PDF, "application/pdf", b"%PDF-"),
        (ZIP, "application/zip", b"PK"),
    ],
)
async def test_a_running_collection_has_reports_in_every_format(
    reporting: Reports,
    bus: Bus,
    format_: collection_service_pb2.ReportFormat.ValueType,
    media_type: str,
    beginning: bytes,
) -> None:
    await store_translated(bus, "de")
    report = await reporting.report("c1", format_, SRT)
    assert report.media_type.startswith(media_type)
    content = await sent(report)
    assert content.startswith(beginning)
    if format_ == PDF:
        pages = PdfReader(io.BytesIO(content)).pages
        text = " ".join(" ".join(page.extract_text() for page in pages).split())
        assert "Original: English (en) word 1 word 2 word 3 Translation: German (de) Wort 1" in text


async def test_the_zip_has_captions_in_the_format_asked_for(reporting: Reports) -> None:
    report = await reporting.report("c1", ZIP, media_pb2.CAPTION_FORMAT_VTT)
    with zipfile.ZipFile(io.BytesIO(await sent(report))) as opened:
        assert opened.namelist() == ["001 Talk 1.vtt", "README.txt"]
        assert opened.read("001 Talk 1.vtt").startswith(b"WEBVTT")
        assert (
            "002 Talk 2\n    completed: Its job was deleted" in opened.read("README.txt").decode()
        )


@pytest.mark.parametrize("language_out", ["de", ""])
async def test_a_report_names_the_language_of_a_translation(
    reporting: Reports, bus: Bus, language_out: str
) -> None:
    # Unset: a resumed attempt may not know that an earlier one translated.
    await store_translated(bus, language_out)
    members = json.loads(await sent(await reporting.report("c1", JSON, SRT)))["members"]
    assert members[0]["text"] == "word 1 word 2 word 3"
    assert members[0]["translation"] == {"language": "de", "text": "Wort 1 Wort 2 Wort 3"}
    assert [member["translation"] for member in members[1:]] == [None, None, None]


async def test_the_zip_has_translated_captions_beside_the_spoken_ones(
    reporting: Reports, bus: Bus
) -> None:
    await store_translated(bus, "de")
    report = await reporting.report("c1", ZIP, SRT)
    with zipfile.ZipFile(io.BytesIO(await sent(report))) as opened:
        assert opened.namelist() == ["001 Talk 1.srt", "001 Talk 1.de.srt", "README.txt"]
        spoken, other = (opened.read(name).decode() for name in opened.namelist()[:2])
    assert "word 1" in spoken
    assert "Wort 1" in other
    assert "word" not in other


async def test_a_report_has_no_translation_that_was_only_requested(
    reporting: Reports,
) -> None:
    members = json.loads(await sent(await reporting.report("c1", JSON, SRT)))["members"]
    assert [member["translation"] for member in members] == [None] * 4
    with zipfile.ZipFile(io.BytesIO(await sent(await reporting.report("c1", ZIP, SRT)))) as opened:
        assert opened.namelist() == ["001 Talk 1.srt", "README.txt"]


async def test_a_report_contains_what_a_running_recording_has_translated_so_far(
    reporting: Reports, bus: Bus
) -> None:
    event_log = EventLogWriter(bus, job_pb2.Job(job_id=JOB.format(3)), last_sequence=0)
    settled = event_pb2.SegmentSettled(segment=translated(1))
    await event_log.append(segment_settled=settled)
    member = json.loads(await sent(await reporting.report("c1", JSON, SRT)))["members"][2]
    assert (member["text"], member["text_complete"]) == ("word 1", False)
    assert member["translation"] == {"language": "de", "text": "Wort 1"}


async def test_an_unknown_format_or_collection_is_refused_before_anything_is_sent(
    reporting: Reports,
) -> None:
    with pytest.raises(UnsupportedError):
        await reporting.report("c1", 99, SRT)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError):
        await reporting.report("c1", ZIP, 99)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        await reporting.report("c2", JSON, SRT)


async def test_a_pdf_is_refused_before_anything_is_sent_if_the_pdf_extra_is_missing(
    reporting: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf_process, "missing_modules", lambda: ["fpdf"])

    with pytest.raises(UnsupportedError, match=r"ytcaption\[pdf\]") as caught:
        await reporting.report("c1", PDF, SRT)

    assert caught.value.reason is Reason.OPTION_UNSUPPORTED


async def test_a_reader_that_stops_early_frees_its_pdf_slot(reporting: Reports) -> None:
    for _ in range(3):  # more than may be rendered at once
        async with aclosing((await reporting.report("c1", PDF, SRT)).chunks()) as chunks:
            await anext(chunks)
