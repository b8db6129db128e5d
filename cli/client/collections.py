"""collections, collection and report: lists collections, shows one, fetches reports over one."""

import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import click

from cli.channel import Server
from cli.client.lists import EVERYTHING, ListSpec, pages, print_list, watch_list
from cli.files.captions import FORMATS as CAPTION_FORMATS
from cli.files.captions import whole_file
from cli.render.collection_state import count_summary, counts_of
from cli.render.messages import as_dict, collection_state, failure_line, member_state, member_title
from cli.render.screen import minute, print_facts, print_table
from cli.render.text import file_stem, lines_for_terminal, short_clock, to_json
from mesh.correlation import call_metadata
from mesh.watching import cancelled_after
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb
from ytcaption.v1 import task_pb2

REPORT_FORMATS = {
    "html": service_pb.REPORT_FORMAT_HTML,
    "pdf": service_pb.REPORT_FORMAT_PDF,
    "md": service_pb.REPORT_FORMAT_MARKDOWN,
    "json": service_pb.REPORT_FORMAT_JSON,
    "zip": service_pb.REPORT_FORMAT_ZIP,
}
# A PDF of a thousand transcripts takes minutes.
REPORT_SECONDS = 600.0


async def list_collections(server: Server, limit: int, *, watch: bool, as_json: bool) -> None:
    """Prints the list, or with `watch` shows it and its changes until it is interrupted."""
    calls = server.collections
    if watch:
        watched = service_pb.WatchCollectionsRequest()
        await watch_list(calls.WatchCollections, watched, COLLECTIONS, limit, as_json=as_json)
    else:
        listed = service_pb.ListCollectionsRequest()
        await print_list(calls.ListCollections, listed, COLLECTIONS, limit, as_json=as_json)


def _row(collection: pb.Collection) -> Sequence[str]:
    listing = "" if collection.discovery_complete else ", listing"
    return (
        collection.collection_id,
        collection_state(collection),
        f"{count_summary(counts_of(collection))}{listing}",
        minute(collection.create_time),
        collection.title or ", ".join(collection.sources),
    )


COLLECTIONS: ListSpec[pb.Collection] = ListSpec(
    id_field="collection_id",
    heads=("collection", "state", "members", "accepted", "title"),
    row=_row,
    items=lambda page: page.collections,
)


async def show_collection(
    server: Server, collection_id: str, limit: int, *, all_members: bool, as_json: bool
) -> None:
    """Prints the facts of one collection, and its first members or all of them."""
    limit = EVERYTHING if all_members else limit
    request = service_pb.GetCollectionRequest(collection_id=collection_id)
    method = server.collections.GetCollection
    read = [page async for page in pages(method, request, lambda page: page.members, limit)]
    collection = read[0].collection
    members = [member for page in read for member in page.members][:limit]
    if as_json:
        plain = [as_dict(member) for member in members]
        click.echo(to_json({"collection": as_dict(collection), "members": plain}))
        return
    print_facts(_facts(collection))
    if members:
        heads = ("no", "state", "progress", "length", "lang", "job", "title")
        print_table(heads, [_member_row(member) for member in members], whole=5)
    if left := max(0, collection.member_count - len(members)):
        click.echo(f"{left} more members; --limit shows more, --all shows them all", err=True)


def _facts(collection: pb.Collection) -> list[tuple[str, str]]:
    days = (collection.from_date, collection.to_date)
    return [
        ("collection", collection.collection_id),
        ("title", collection.title),
        ("state", collection_state(collection) + ("" if collection.settled else ", not settled")),
        ("members", count_summary(counts_of(collection))),
        ("late", str(collection.late_count or "")),
        *(("source", _listing(one)) for one in collection.listings),
        ("published", " to ".join(day or "…" for day in days) if any(days) else ""),
        ("accepted", minute(collection.create_time)),
        ("deadline", minute(collection.deadline)),
        ("gathered", minute(collection.end_time)),
        ("in flight", f"at most {collection.max_in_flight}" if collection.max_in_flight else ""),
        ("cancelled", collection.cancel_note),
        ("webhook", collection.webhook_url),
        ("caller", collection.caller),
        ("group", collection.group),
        ("correlation", collection.correlation_id),
    ]


def _listing(listing: pb.Listing) -> str:
    if listing.HasField("failure"):
        state = f"broke off: {failure_line(listing.failure)}"
    else:
        state = "listed" if listing.complete else "being listed"
    return f"{listing.source} ({listing.found} found, {state})"


def _member_row(member: pb.Member) -> Sequence[str]:
    failure = f": {failure_line(member.failure)}" if member.HasField("failure") else ""
    return (
        str(member.number),
        member_state(member.state) + (" (late)" if member.late else ""),
        f"{member.progress:.0%}" if member.HasField("progress") else "",
        short_clock(member.duration.ToTimedelta()) if member.HasField("duration") else "",
        member.language,
        member.job_id,
        f"{member_title(member)}{failure}",
    )


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
            await _save(server, collection_id, name, self.captions, path)
            paths.append(path)
        return paths


async def _frames(
    server: Server, collection_id: str, name: str, captions: str
) -> AsyncGenerator[service_pb.GetReportResponse, None]:
    request = service_pb.GetReportRequest(
        collection_id=collection_id,
        format=REPORT_FORMATS[name],
        caption_format=CAPTION_FORMATS[captions],
    )
    call = server.collections.GetReport(request, timeout=REPORT_SECONDS, metadata=call_metadata())
    with cancelled_after(call):
        async for frame in call:
            yield frame


async def _save(server: Server, collection_id: str, name: str, captions: str, path: Path) -> Path:
    """Writes the report atomically; in a directory under the name the server gives it."""
    async with aclosing(_frames(server, collection_id, name, captions)) as frames:
        first = await anext(frames, service_pb.GetReportResponse())
        path = _named(path, first.file_name)
        with whole_file(path) as opened:
            opened.write(first.chunk)
            async for frame in frames:
                opened.write(frame.chunk)
    return path


async def fetch_result_files(
    server: Server, collection_id: str, subtasks: Iterable[task_pb2.Subtask], folder: Path
) -> list[Path]:
    """Writes the files that executors made; returns their paths."""
    paths = []
    for subtask in subtasks:
        for file in subtask.files:
            name = file_stem(f"{subtask.type}-{subtask.number} {file.name}", "result")
            request = service_pb.GetResultFileRequest(
                collection_id=collection_id, subtask=subtask.number, name=file.name
            )
            metadata = call_metadata()
            call = server.collections.GetResultFile(
                request, timeout=REPORT_SECONDS, metadata=metadata
            )
            with cancelled_after(call), whole_file(folder / name) as opened:
                async for frame in call:
                    opened.write(frame.chunk)
            paths.append(folder / name)
    return paths


def _named(path: Path, name: str) -> Path:
    return path / file_stem(name, "report") if path.is_dir() else path


async def print_report(
    server: Server, collection_id: str, name: str, captions: str, output: Path | None
) -> None:
    """Writes a report unchanged to a file or a pipe; made safe for a terminal."""
    if output is not None:
        path = await _save(server, collection_id, name, captions, output)
        click.echo(f"wrote {path}", err=True)
        return
    async with aclosing(_frames(server, collection_id, name, captions)) as frames:
        if sys.stdout.isatty():
            content = b"".join([frame.chunk async for frame in frames])
            click.echo(lines_for_terminal(content.decode(errors="replace")))
            return
        async for frame in frames:
            sys.stdout.buffer.write(frame.chunk)
        sys.stdout.buffer.flush()
