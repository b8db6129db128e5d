"""report: streams a report over all members of a collection to a file or to stdout."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import click

from cli.channel import Server
from cli.files.captions import FORMATS as CAPTION_FORMATS
from cli.files.captions import whole_file
from cli.render.text import file_stem, lines_for_terminal
from mesh.correlation import call_metadata
from ytcaption.v1 import collection_service_pb2 as pb

REPORT_FORMATS = {
    "html": pb.REPORT_FORMAT_HTML,
    "pdf": pb.REPORT_FORMAT_PDF,
    "md": pb.REPORT_FORMAT_MARKDOWN,
    "json": pb.REPORT_FORMAT_JSON,
    "zip": pb.REPORT_FORMAT_ZIP,
}
# A PDF of a thousand transcripts takes minutes.
REPORT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ReportOutput:
    """The directory and formats of the reports that `collect` writes; without formats none."""

    directory: Path
    formats: Sequence[str]
    captions: str
    """Caption format of the files in a zip."""

    async def fetch(self, server: Server, collection_id: str) -> list[Path]:
        """Writes the reports; returns their paths."""
        paths = []
        for name in self.formats:
            path = self.directory / ("captions.zip" if name == "zip" else f"report.{name}")
            await save_report(server, report_request(collection_id, name, self.captions), path)
            paths.append(path)
        return paths


def report_request(collection_id: str, name: str, captions: str) -> pb.GetReportRequest:
    """Builds the request for one report."""
    return pb.GetReportRequest(
        collection_id=collection_id,
        format=REPORT_FORMATS[name],
        caption_format=CAPTION_FORMATS[captions],
    )


async def _frames(
    server: Server, request: pb.GetReportRequest
) -> AsyncGenerator[pb.GetReportResponse, None]:
    call = server.collections.GetReport(request, timeout=REPORT_SECONDS, metadata=call_metadata())
    try:
        async for frame in call:
            yield frame
    finally:
        # grpc.aio never frees an abandoned call.
        call.cancel()


async def save_report(server: Server, request: pb.GetReportRequest, path: Path) -> Path:
    """Writes the report atomically; in a directory under the name the server gives it."""
    async with aclosing(_frames(server, request)) as frames:
        first = await anext(frames, pb.GetReportResponse())
        path = _named(path, first.file_name)
        with whole_file(path) as opened:
            opened.write(first.chunk)
            async for frame in frames:
                opened.write(frame.chunk)
    return path


def _named(path: Path, name: str) -> Path:
    return path / file_stem(name, "report") if path.is_dir() else path


async def print_report(
    server: Server, collection_id: str, name: str, captions: str, output: Path | None
) -> None:
    """Writes a report unchanged to a file or a pipe; made safe for a terminal."""
    request = report_request(collection_id, name, captions)
    if output is not None:
        path = await save_report(server, request, output)
        click.echo(f"wrote {path}", err=True)
        return
    async with aclosing(_frames(server, request)) as frames:
        if sys.stdout.isatty():
            content = b"".join([frame.chunk async for frame in frames])
            click.echo(lines_for_terminal(content.decode(errors="replace")))
            return
        async for frame in frames:
            sys.stdout.buffer.write(frame.chunk)
        sys.stdout.buffer.flush()
