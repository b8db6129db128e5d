"""Calls of AdminService about one owner: export, erasure, retention."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import click
from google.protobuf.duration import from_timedelta, to_timedelta

from cli.channel import Server, call
from cli.files.captions import whole_file
from cli.render.messages import as_dict
from cli.render.screen import Screen, print_table
from cli.render.text import file_stem, for_terminal, size, to_json
from mesh.correlation import call_metadata
from mesh.messages import enum_word
from mesh.watching import cancelled_after
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import owner_pb2

LONGEST_SECONDS = 24 * 3600
COUNTS = {
    field.name: field.name.replace("_", " ") for field in owner_pb2.ErasedCounts.DESCRIPTOR.fields
}


async def export(server: Server, owner: str, output: Path, *, as_json: bool) -> None:
    """Writes the zip atomically: an interrupted export leaves no file under its name."""
    written = 0
    with Screen() as screen:
        async with aclosing(_exported(server, owner)) as frames:
            first = await anext(frames, pb.ExportOwnerResponse())
            path = _named(output, first.file_name)
            with whole_file(path) as opened:
                opened.write(first.chunk)
                async for frame in frames:
                    opened.write(frame.chunk)
                    written += len(frame.chunk)
                    screen.status(f"{frame.done} of {frame.total}, {size(written)}")
    if as_json:
        click.echo(to_json({"path": str(path), "size_bytes": written}))
    else:
        click.echo(f"wrote {for_terminal(str(path))}, {size(written)}", err=True)


def _named(path: Path, name: str) -> Path:
    stem = file_stem(name.removesuffix(".zip"), "export")
    return path / f"{stem}.zip" if path.is_dir() else path


async def _exported(server: Server, owner: str) -> AsyncGenerator[pb.ExportOwnerResponse, None]:
    request = pb.ExportOwnerRequest(owner=owner)
    stream = server.admin.ExportOwner(request, timeout=LONGEST_SECONDS, metadata=call_metadata())
    with cancelled_after(stream):
        async for frame in stream:
            yield frame


async def forget(
    server: Server, owner: str, confirmation: str, *, dry_run: bool, as_json: bool
) -> None:
    """Shows how far the erasure is, then what was removed."""
    request = pb.EraseOwnerRequest(owner=owner, confirmation=confirmation, dry_run=dry_run)
    stream = server.admin.EraseOwner(request, timeout=LONGEST_SECONDS, metadata=call_metadata())
    last = pb.EraseOwnerResponse()
    with Screen() as screen, cancelled_after(stream):
        async for last in stream:
            if last.phase and not last.finished:
                amount = f" {last.done} of {last.total}" if last.total else ""
                screen.status(f"{enum_word(owner_pb2.ErasurePhase, last.phase)}{amount}")
    removed = {name: getattr(last.removed, name) for name in COUNTS}
    if as_json:
        remarks = list(last.remarks)
        click.echo(to_json({"dry_run": dry_run, "removed": removed, "remarks": remarks}))
        return
    counts = [f"{count} {COUNTS[name]}" for name, count in removed.items() if name != "bytes"]
    verb = "would erase" if dry_run else "erased"
    click.echo(f"{verb}: {', '.join(counts)}, {size(last.removed.bytes)}")
    for remark in last.remarks:
        click.echo(for_terminal(remark), err=True)


async def set_retention(
    server: Server, owner: str, age: timedelta | None, *, as_json: bool
) -> None:
    """Prints what is in force now."""
    request = pb.SetOwnerRetentionRequest(owner=owner)
    if age is not None:
        request.retention.CopyFrom(from_timedelta(age))
    found = (await call(server.admin.SetOwnerRetention, request)).retention
    click.echo(to_json(as_dict(found)) if as_json else for_terminal(f"{owner}: {_days(found)}"))


async def list_retentions(server: Server, *, as_json: bool) -> None:
    """Prints owners as a table, or as one JSON object a line."""
    found = await call(server.admin.ListOwnerRetentions, pb.ListOwnerRetentionsRequest())
    if as_json:
        for one in found.retentions:
            click.echo(to_json(as_dict(one)))
    elif found.retentions:
        rows = [(one.owner, _days(one)) for one in found.retentions]
        print_table(("owner", "kept for"), rows)


def _days(found: owner_pb2.OwnerRetention) -> str:
    if not found.HasField("retention"):
        return "as the settings say"
    return f"{to_timedelta(found.retention) / timedelta(days=1):g} days"
