"""collect, collections, collection, report."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.commands.transcribe import (
    caption_output,
    require_word_times,
    to_job_options,
    to_priority,
)
from cli.execution import async_command, run
from cli.exits import Exit
from cli.options import (
    FORMATS,
    USUAL_FORMATS,
    call_client,
    caption_files_options,
    job_options,
    json_lines_option,
    limit_option,
    optional_server_option,
    require_server,
    server_command,
    server_option,
    submission_options,
    watch_option,
    webhook_option,
    word_cues_option,
)
from cli.params import (
    DAY,
    PERIOD,
    DurationParam,
    TaskParam,
    check_number,
    check_sources,
    read_addresses,
)

if TYPE_CHECKING:
    from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

REPORTS = ("html", "pdf", "md", "json", "zip")
BINARY_REPORTS = ("pdf", "zip")

collection_argument = click.argument("collection_id", metavar="COLLECTION")


@click.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("--each", is_flag=True, help="Each SOURCE is one recording, not a list of them.")
@click.option(
    "--from-file",
    "file",
    metavar="FILE",
    help="More sources, one a line; - is stdin, # starts a comment.",
)
@click.option(
    "--source",
    "collectors",
    type=TaskParam(),
    multiple=True,
    metavar="TYPE[:KEY=VALUE,…]",
    help="What a registered collector is to find; or TYPE:{JSON}. May be repeated.",
)
@click.option(
    "--executor",
    "executors",
    type=TaskParam(scoped=True),
    multiple=True,
    metavar="KIND[@item][:KEY=VALUE,…]",
    help="What a registered executor is to make of it. May be repeated.",
)
@click.option("--period", type=PERIOD, help="Only what was published then, such as 2025-10.")
@click.option("--from", "from_date", type=DAY, help="Only what was published on this day or later.")
@click.option("--to", "to_date", type=DAY, help="Only what was published on this day or earlier.")
@click.option(
    "--max-members", type=click.IntRange(1), metavar="N", help="At most this many recordings."
)
@click.option(
    "--max-in-flight", type=click.IntRange(1), metavar="N", help="At most this many at once."
)
@click.option(
    "--timeout",
    type=DurationParam(),
    help="Give up members that are not done by then: 90s, 30m, 2h.",
)
@click.option(
    "--late",
    is_flag=True,
    help="After the timeout, still wait for members that had begun before it.",
)
@click.option("--title", default="", metavar="TEXT", help="Title of the collection in reports.")
@click.option(
    "--request-id",
    default="",
    metavar="WORD",
    help="Idempotency key: sent twice, it is one collection.",
)
@caption_files_options("Write each recording's captions there as soon as it is transcribed.")
@click.option(
    "--report",
    "reports",
    type=click.Choice(REPORTS),
    multiple=True,
    help="Write a report at the end, beside the captions; may be repeated.",
)
@job_options
@submission_options
@word_cues_option
@webhook_option
@click.option("--detach", is_flag=True, help="Print the collection's id and leave it running.")
@optional_server_option("the collection")
@json_lines_option
@click.option("-q", "--quiet", is_flag=True, help="Ended members and errors only.")
def collect(sources: tuple[str, ...], **given: Any) -> None:
    """Captions everything behind SOURCE: playlists, channels, searches ("ytsearch5:cats").

    Each recording is a line on stdout when it has ended; progress and messages are on stderr.
    Ctrl-C cancels the collection and keeps its captions so far; a second one exits at once.
    """
    # Read before the event loop runs: within it, Ctrl-C would have to wait for stdin.
    wanted = [*sources, *(read_addresses(file) if (file := given.pop("file")) else [])]
    each = given.pop("each")
    check_number(wanted, each=each, others=bool(given["collectors"]))
    if each and (given["period"] or given["from_date"] or given["to_date"]):
        raise click.UsageError("--period, --from and --to filter listings, not with --each")
    _check(given)
    run(_collect(wanted, each, given))


def _check(given: dict[str, Any]) -> None:
    if given["webhook_url"]:
        require_server("--webhook", given["server"])
    if given["period"] and (given["from_date"] or given["to_date"]):
        raise click.UsageError("give --period, or --from and --to, not both")
    if given["from_date"] and given["to_date"] and given["from_date"] > given["to_date"]:
        raise click.UsageError("--to is before --from")
    if given["late"] and given["timeout"] is None:
        raise click.UsageError("--late needs a --timeout")
    if given["word_cues"]:
        require_word_times(given)
    if given["detach"]:
        require_server("--detach", given["server"])
        if given["output"] or given["formats"] or given["reports"] or given["late"]:
            raise click.UsageError("--detach does not wait, so it cannot write files or reports")


async def _collect(wanted: list[str], each: bool, given: dict[str, Any]) -> Exit:
    from cli.client.collect import CollectOptions, collect
    from cli.client.collections import ReportOutput

    check_sources(wanted, each=each)
    named: dict[str, Any] = {"addresses" if each else "sources": wanted, **_specs(given)}
    output = caption_output(given)
    zipped = (output.formats or USUAL_FORMATS)[0]
    reports = ReportOutput(output.directory, given.pop("reports"), zipped)
    flags = {name: given.pop(name) for name in ("server", "late", "detach", "as_json", "quiet")}
    return await collect(CollectOptions(_request(named, given), output, reports, **flags))


def _specs(given: dict[str, Any]) -> dict[str, Any]:
    from mesh.messages import struct_of
    from ytcaption.v1 import task_pb2

    scopes = {
        "": task_pb2.EXECUTOR_SCOPE_UNSPECIFIED,
        "item": task_pb2.EXECUTOR_SCOPE_ITEM,
        "collection": task_pb2.EXECUTOR_SCOPE_COLLECTION,
    }
    return {
        "source_specs": [
            task_pb2.SourceSpec(type=one.type, parameters=struct_of(one.parameters))
            for one in given.pop("collectors")
        ],
        "executors": [
            task_pb2.ExecutorSpec(
                kind=one.type, parameters=struct_of(one.parameters), scope=scopes[one.scope]
            )
            for one in given.pop("executors")
        ],
    }


def _request(named: dict[str, Any], given: dict[str, Any]) -> "CreateCollectionRequest":
    from google.protobuf.duration import from_timedelta

    from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

    names = (
        *("period", "from_date", "to_date", "max_members", "max_in_flight"),
        *("title", "request_id", "webhook_url", "caller", "force"),
    )
    chosen = {name: value for name in names if (value := given.pop(name))}
    timeout: timedelta | None = given.pop("timeout")
    priority = to_priority(given.pop("priority"))
    return CreateCollectionRequest(
        **named,
        group=given.pop("group"),
        **chosen,
        priority=priority,
        timeout=from_timedelta(timeout) if timeout else None,
        options=to_job_options(given),
    )


@click.command()
@limit_option
@watch_option
@server_command("collections.list_collections")
def collections() -> None:
    """Lists collections, newest first."""


@click.command()
@collection_argument
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="At most this many members.",
)
@click.option("--all", "all_members", is_flag=True, help="Every member.")
@server_command("collections.show_collection")
def collection() -> None:
    """Shows the state of COLLECTION and its members."""


@click.command()
@collection_argument
@click.option("-f", "--format", "name", type=click.Choice(REPORTS), default="md", show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to this file instead of stdout; in a directory the server names the file.",
)
@click.option(
    "--captions",
    type=click.Choice(FORMATS),
    help="Format of the captions in a zip.  [default: srt]",
)
@server_option
@async_command
async def report(name: str, captions: str | None, server: str, **given: Any) -> Exit:
    """Fetches one report over all members of COLLECTION, or a zip of their captions."""
    if captions and name != "zip":
        raise click.UsageError("--captions is for -f zip")
    if given["output"] is None and name in BINARY_REPORTS and sys.stdout.isatty():
        raise click.UsageError(f"a {name} cannot be shown on a terminal: give -o FILE, or pipe it")
    given |= {"name": name, "captions": captions or "srt"}
    return await call_client("collections.print_report", server, **given)
