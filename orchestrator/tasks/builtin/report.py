"""The executor `relatorio`: one report of a collection, of recordings and documents."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from google.protobuf.json_format import MessageToDict, ParseDict

from mesh.errors import InternalError, UnsupportedError
from mesh.frames import framed
from mesh.languages import described
from mesh.reasons import Reason
from orchestrator.tasks.builtin.files import begin_of, result_of
from orchestrator.tasks.report_model import collection_of, document_of, member_of
from reports.archive import safe
from reports.document import JsonReport
from reports.markdown import MarkdownReport
from reports.model import Collection, Document, Member, MemberState, Text
from reports.page import HtmlReport
from reports.pdf_process import PdfError, PdfUnavailableError, render_pdf, require_pdf
from reports.words import heading
from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import executor_service_pb2 as pb

MAX_PDFS = 2
"""PDFs rendered at once: each takes a core, and memory that grows with the text."""
FORMAT, DEFAULT, PDF = "formato", "json", "pdf"
MEDIA_TYPES = {
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "pdf": "application/pdf",
}
WRITERS: Mapping[str, type[JsonReport | MarkdownReport | HtmlReport]] = {
    "json": JsonReport,
    "md": MarkdownReport,
    "html": HtmlReport,
}
MISSING = "There are no captions of it."
DESCRIPTION = ParseDict(
    {
        "summary": "One report of everything that was collected, and of what is missing.",
        "parameters_schema": {
            "type": "object",
            "properties": {FORMAT: {"enum": list(MEDIA_TYPES), "default": DEFAULT}},
            "additionalProperties": False,
        },
        "preferred_scope": "EXECUTOR_SCOPE_COLLECTION",
    },
    task_pb2.TypeDescription(),
)


class CollectionReport:
    """Writes a report of what it gets; fulfils `Executor`."""

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir
        self._pdf_slots = asyncio.Semaphore(MAX_PDFS)

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        """The one kind."""
        return {"relatorio": DESCRIPTION}

    async def execute(
        self, start: pb.ExecuteStart, items: AsyncIterator[pb.ExecuteRequest]
    ) -> AsyncGenerator[pb.ExecuteResponse, None]:
        """The report as a file; the result counts what is in it."""
        format_ = MessageToDict(start.parameters).get(FORMAT) or DEFAULT
        if format_ == PDF:
            _require_pdf()
        # The list of members comes first in a report: their texts wait in a file meanwhile.
        with TemporaryFile(dir=self._work_dir, prefix="relatorio-") as spool:
            received = _Received(spool)
            async for item in items:
                received.take(item)
            collection = received.collection(start.collection)
            name = f"{safe(heading(collection)) or 'relatorio'}.{format_}"
            yield begin_of(name, MEDIA_TYPES[format_])
            parts = self._pdf(collection, received) if format_ == PDF else None
            async with aclosing(framed(parts or _written(collection, received, format_))) as frames:
                async for frame in frames:
                    yield pb.ExecuteResponse(chunk=frame)
        yield result_of({FORMAT: format_, "arquivo": name, **received.counts()})

    async def _pdf(
        self, collection: Collection, received: "_Received"
    ) -> AsyncGenerator[bytes, None]:
        async with self._pdf_slots, aclosing(render_pdf(collection, received.texts())) as chunks:
            try:
                async for chunk in chunks:
                    yield chunk
            except PdfError as error:
                raise InternalError(str(error), reason=Reason.INTERNAL) from error


@dataclass(slots=True)
class _Place:
    """Where a text is in the file."""

    start: int
    size: int = 0


@dataclass(slots=True)
class _Received:
    """What came so far: members and documents in memory, texts in a file."""

    file: IO[bytes]
    members: dict[int, collection_pb2.Member] = field(default_factory=dict)
    documents: list[task_pb2.Document] = field(default_factory=list)
    missing: set[int] = field(default_factory=set)
    places: dict[tuple[str, int], list[_Place]] = field(default_factory=dict)

    def take(self, item: pb.ExecuteRequest) -> None:
        """Notes one item."""
        kind = item.WhichOneof("event")
        if kind == "member":
            self.members[item.member.number] = item.member
        elif kind == "missing":
            self.members[item.missing.number] = item.missing
            self.missing.add(item.missing.number)
        elif kind == "segments":
            part = item.segments
            text = part.text or " ".join(one.text.strip() for one in part.segments)
            self._keep("member", part.member, text)
        elif kind == "document":
            self._keep("document", item.document.number, item.document.text)
            document = task_pb2.Document()
            document.CopyFrom(item.document)
            document.ClearField("text")
            self.documents.append(document)

    def collection(self, stands: collection_pb2.Collection) -> Collection:
        """The collection with every member that came."""
        members = [self.members[number] for number in sorted(self.members)]
        return collection_of(stands, members, datetime.now(UTC))

    def counts(self) -> dict[str, Any]:
        """How much of what came."""
        return {
            "membros": len(self.members),
            "com_texto": len(self.members) - len(self.missing),
            "faltando": len(self.missing),
            "documentos": len(self.documents),
        }

    async def texts(self) -> AsyncGenerator[tuple[Member | Document, Text], None]:
        """Members, then documents, each with its text, one in memory at a time."""
        for number in sorted(self.members):
            yield self._member(self.members[number])
        for document in self.documents:
            yield document_of(document), Text(self._text("document", document.number), True)

    def _member(self, stands: collection_pb2.Member) -> tuple[Member, Text]:
        member = member_of(stands)
        if stands.number in self.missing:
            return member, Text(note=MISSING)
        return member, Text(
            self._text("member", stands.number),
            complete=member.state is MemberState.COMPLETED,
            language=member.language,
            language_name=described(member.language),
        )

    def _keep(self, kind: str, number: int, text: str) -> None:
        start = self.file.seek(0, 2)
        size = self.file.write(text.encode(errors="replace"))
        self.places.setdefault((kind, number), []).append(_Place(start, size))

    def _text(self, kind: str, number: int) -> str:
        parts = []
        for place in self.places.get((kind, number), ()):
            self.file.seek(place.start)
            parts.append(self.file.read(place.size).decode())
        return " ".join(parts)


async def _written(
    collection: Collection, received: _Received, format_: str
) -> AsyncGenerator[bytes, None]:
    writer = WRITERS[format_]()
    for part in writer.begin(collection):
        yield part.encode()
    async with aclosing(received.texts()) as texts:
        async for one, text in texts:
            parts = (
                writer.document(one, text)
                if isinstance(one, Document)
                else writer.member(one, text)
            )
            yield "".join(parts).encode()
    yield "".join(writer.end()).encode()


def _require_pdf() -> None:
    try:
        require_pdf()
    except PdfUnavailableError as error:
        raise UnsupportedError(str(error), reason=Reason.OPTION_UNSUPPORTED) from error
