"""Reports of collections: rendered while they are sent, one member's text at a time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TypeAlias

from mesh.errors import InternalError, NotFoundError, UnsupportedError
from mesh.frames import framed
from mesh.languages import described
from mesh.reasons import Reason
from orchestrator.collections.projection import Projection, ReadProjection
from orchestrator.jobs.caption_files import CaptionFile, CaptionReader, Tracks
from orchestrator.jobs.captions import FormatId, format_for
from orchestrator.jobs.store import JobStore, UnreadableError
from orchestrator.tasks.report_model import collection_of
from reports.archive import CaptionsZip, safe
from reports.document import JsonReport
from reports.markdown import MarkdownReport
from reports.model import (
    Collection,
    Member,
    MemberState,
    Text,
    Translation,
)
from reports.page import HtmlReport
from reports.pdf_process import PdfError, PdfUnavailableError, render_pdf, require_pdf
from reports.words import heading
from ytcaption.v1 import collection_service_pb2, job_pb2, media_pb2

Parts: TypeAlias = AsyncGenerator[bytes, None]
ReportFormatId: TypeAlias = "collection_service_pb2.ReportFormat.ValueType"

MAX_PDFS = 2
"""PDFs rendered at once: each takes a core, and memory that grows with the text."""
GONE = "Its job was deleted meanwhile: there is no text."
UNREADABLE = "The record of its job cannot be read: there is no text."
SO_FAR = "Not all of it: only what was heard until this report was asked for."
UNTIL_THEN = "Not all of it: only what was heard until then."
ENDED_EARLY = frozenset({MemberState.FAILED, MemberState.CANCELLED})


@dataclass(frozen=True, slots=True)
class Report:
    """A report that is rendered as its chunks are read."""

    media_type: str
    file_name: str
    chunks: Callable[[], Parts]
    """Bytes in order, at most 64 KiB each; a reader that stops early must close the generator."""


TextReport: TypeAlias = JsonReport | MarkdownReport | HtmlReport

_TEXT_FORMATS: dict[ReportFormatId, tuple[type[TextReport], str, str]] = {
    collection_service_pb2.REPORT_FORMAT_UNSPECIFIED: (JsonReport, "application/json", "json"),
    collection_service_pb2.REPORT_FORMAT_JSON: (JsonReport, "application/json", "json"),
    collection_service_pb2.REPORT_FORMAT_MARKDOWN: (
        MarkdownReport,
        "text/markdown; charset=utf-8",
        "md",
    ),
    collection_service_pb2.REPORT_FORMAT_HTML: (HtmlReport, "text/html; charset=utf-8", "html"),
}


class Reports:
    """Renders reports of finished and of running collections."""

    def __init__(self, read: ReadProjection, jobs: JobStore, captions: CaptionReader) -> None:
        self._read = read
        self._jobs = jobs
        self._captions = captions
        self._pdf_slots = asyncio.Semaphore(MAX_PDFS)

    async def report(
        self, collection_id: str, format: ReportFormatId, caption_format: FormatId
    ) -> Report:
        """Checks the request and reads the projection; texts are read while the report is sent."""
        format_for(job_pb2.Job(), caption_format)
        projection = await self._read(collection_id)
        collection = report_collection(projection, datetime.now(UTC))
        stem = safe(heading(collection)) or collection_id
        if format == collection_service_pb2.REPORT_FORMAT_PDF:
            try:
                require_pdf()
            except PdfUnavailableError as error:
                raise UnsupportedError(str(error), reason=Reason.OPTION_UNSUPPORTED) from error
            return Report("application/pdf", f"{stem}.pdf", lambda: self._pdf(collection))
        if format == collection_service_pb2.REPORT_FORMAT_ZIP:
            return Report(
                "application/zip", f"{stem}.zip", lambda: self._zip(collection, caption_format)
            )
        if format not in _TEXT_FORMATS:
            raise UnsupportedError(
                f"unknown report format {format}", reason=Reason.OPTION_UNSUPPORTED
            )
        writer, media_type, suffix = _TEXT_FORMATS[format]
        return Report(media_type, f"{stem}.{suffix}", lambda: self._written(collection, writer()))

    def _written(self, collection: Collection, writer: TextReport) -> Parts:
        async def parts() -> Parts:
            for part in writer.begin(collection):
                yield part.encode()
            async for member, text in self._texts(collection):
                yield "".join(writer.member(member, text)).encode()
            yield "".join(writer.end()).encode()

        return framed(parts())

    async def _pdf(self, collection: Collection) -> Parts:
        pdf = framed(render_pdf(collection, self._texts(collection)))
        async with self._pdf_slots, aclosing(pdf):
            try:
                async for frame in pdf:
                    yield frame
            except PdfError as error:
                raise InternalError(str(error), reason=Reason.INTERNAL) from error

    def _zip(self, collection: Collection, format_: FormatId) -> Parts:
        async def parts() -> Parts:
            archive = CaptionsZip(collection)
            for member in collection.members:
                tracks, why = None, "it has no captions yet"
                if member.state is MemberState.COMPLETED:
                    tracks, why = await self._tracks(member, format_)
                if not tracks:
                    archive.skip(member, why)
                    continue
                yield await _packed(archive, member, tracks.spoken)
                if other := tracks.translated:
                    named = other.language, described(other.language)
                    yield await _packed(archive, member, other, *named)
            yield archive.end()

        return framed(parts())

    async def _texts(self, collection: Collection) -> AsyncGenerator[tuple[Member, Text], None]:
        for member in collection.members:
            yield member, await self._text(member)

    async def _text(self, member: Member) -> Text:
        if not member.job_id:
            return Text(note="It was not begun: there is no text.")
        tracks, why = await self._tracks(member, media_pb2.CAPTION_FORMAT_TXT)
        if not tracks:
            return Text(note=why)
        spoken, other = tracks.spoken, tracks.translated
        content = spoken.content.decode()
        return Text(
            content,
            spoken.complete,
            _note(member, spoken.complete, content.strip()),
            spoken.language,
            described(spoken.language or member.language),
            _translation(other) if other else None,
        )

    async def _tracks(self, member: Member, format_: FormatId) -> tuple[Tracks | None, str]:
        """A member's captions, or why there are none."""
        try:
            job = (await self._jobs.get(member.job_id)).job
            tracks = await self._captions.tracks(job, format_)
            # Captions deleted while they are read look empty: check that the job still exists.
            await self._jobs.get(member.job_id)
        except NotFoundError:
            return None, GONE
        except UnreadableError:
            return None, UNREADABLE
        return tracks, ""


def report_collection(projection: Projection, report_time: datetime) -> Collection:
    """The collection and its members as reports render them, without the texts."""
    return collection_of(
        projection.collection,
        projection.members,
        report_time,
        projection.subtasks,
        projection.documents,
    )


def _translation(file: CaptionFile) -> Translation:
    return Translation(file.language, file.content.decode(), described(file.language))


async def _packed(
    archive: CaptionsZip, member: Member, captions: CaptionFile, *translated_into: str
) -> bytes:
    suffix = PurePath(captions.file_name).suffix.removeprefix(".")
    return await asyncio.to_thread(archive.add, member, captions.content, suffix, *translated_into)


def _note(member: Member, complete: bool, content: str) -> str:
    """Why there is no text, or not all of it; "" for a whole text."""
    if complete:
        return "" if content else "No speech was heard."
    if member.state in ENDED_EARLY:
        return UNTIL_THEN if content else "Nothing was heard of it."
    return SO_FAR if content else "Nothing was heard of it yet."
