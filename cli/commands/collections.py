"""collect, collections, collection, report."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.choices import to_job_options, to_priority
from cli.commands.captioning import ask_for_words
from cli.exits import Exit
from cli.options import (
    FORMATS,
    USUAL_FORMATS,
    caption_files_options,
    job_options,
    json_lines_option,
    json_option,
    limit_option,
    order_options,
    own_mesh_option,
    refuse_a_webhook_nobody_would_send,
    refuse_to_watch_too_many,
    server_option,
    watch_option,
    webhook_option,
    word_cues_option,
)
from cli.running import run
from cli.wishes import Day, Period, Span, check_number, check_sources, read_addresses

if TYPE_CHECKING:
    from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

REPORTS = ("html", "pdf", "md", "json", "zip")
BINARY_REPORTS = ("pdf", "zip")

collection_argument = click.argument("collection_id", metavar="COLLECTION")


@click.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option(
    "--each", is_flag=True, help="Each SOURCE is one recording: nobody looks for others behind it."
)
@click.option(
    "--from-file", "file", metavar="FILE", help="More sources, one a line; - is stdin, # a comment."
)
@click.option("--period", type=Period(), help="Only what was published then, such as 2025-10.")
@click.option("--from", "from_date", type=Day(), help="Only what was published since.")
@click.option("--to", "to_date", type=Day(), help="Only what was published until then.")
@click.option("--max-members", type=click.IntRange(1), metavar="N", help="Recordings at most.")
@click.option("--max-in-flight", type=click.IntRange(1), metavar="N", help="At most at once.")
@click.option("--timeout", type=Span(), help="What is missing then is left out: 90s, 30m, 2h.")
@click.option(
    "--late", is_flag=True, help="After the timeout, wait for what had begun before it, too."
)
@click.option("--title", default="", metavar="TEXT", help="What it is called in reports.")
@click.option(
    "--request-id",
    default="",
    metavar="WORD",
    help="Your own unique word: sent twice, it is one collection.",
)
@caption_files_options("Write every recording's captions there as soon as it is heard.")
@click.option(
    "--report",
    "reports",
    type=click.Choice(REPORTS),
    multiple=True,
    help="At the end a report beside the captions; may be repeated.",
)
@job_options
@order_options
@word_cues_option
@webhook_option
@click.option("--detach", is_flag=True, help="Print the collection's id and leave it running.")
@own_mesh_option("the collection")
@json_lines_option
@click.option("-q", "--quiet", is_flag=True, help="Members as they end and errors only.")
def collect(sources: tuple[str, ...], **given: Any) -> None:
    """Captions everything behind SOURCE: playlists, channels, searches ("ytsearch5:cats").

    Each recording is a line on stdout when it has ended; bars and everything else are on stderr.
    Ctrl-C stops the collection and keeps what was heard; a second one leaves at once.
    """
    wanted = [*sources, *(read_addresses(file) if (file := given.pop("file")) else [])]
    each = given.pop("each")
    check_number(wanted, each=each)
    if each and (given["period"] or given["from_date"] or given["to_date"]):
        raise click.UsageError("days of publication choose among what is listed, not with --each")
    _check(given)
    run(_collect(wanted, each, given))


def _check(given: dict[str, Any]) -> None:
    refuse_a_webhook_nobody_would_send(given["webhook_url"], given["server"])
    if given["period"] and (given["from_date"] or given["to_date"]):
        raise click.UsageError("give --period, or --from and --to, not both")
    if given["from_date"] and given["to_date"] and given["from_date"] > given["to_date"]:
        raise click.UsageError("--to is before --from")
    if given["late"] and given["timeout"] is None:
        raise click.UsageError("--late is for a collection with a --timeout")
    if given["word_cues"]:
        ask_for_words(given)
    if given["detach"]:
        if given["server"] is None:
            raise click.UsageError(
                "--detach needs a mesh that goes on running: give --server or YTCAPTION_SERVER"
            )
        if given["output"] or given["formats"] or given["reports"] or given["late"]:
            raise click.UsageError("--detach does not wait: nothing can be written at the end")


async def _collect(wanted: list[str], each: bool, given: dict[str, Any]) -> Exit:
    from cli.aggregates import Reports
    from cli.collecting import Task, collect
    from cli.outputs import Output

    check_sources(wanted, each=each)
    named: dict[str, Any] = {"addresses" if each else "sources": wanted}
    directory, formats = given.pop("output"), given.pop("formats")
    reports, word_cues = given.pop("reports"), given.pop("word_cues")
    place = directory or Path()
    output = Output(place, formats or USUAL_FORMATS, word_cues)
    flags = {name: given.pop(name) for name in ("server", "late", "detach", "as_json", "quiet")}
    task = Task(
        request=_request(named, given),
        output=output if directory is not None or formats else None,
        reports=Reports(place, reports, output.formats[0]) if reports else None,
        **flags,
    )
    return await collect(task)


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
        **chosen,
        priority=priority,
        timeout=from_timedelta(timeout) if timeout else None,
        options=to_job_options(given),
    )


@click.command()
@limit_option
@watch_option
@server_option
@json_option
def collections(limit: int, watch: bool, server: str, as_json: bool) -> None:
    """Lists collections, newest first."""
    if watch:
        refuse_to_watch_too_many(limit)

    async def main() -> Exit:
        from cli.collections import list_collections, watch_collections

        shown = watch_collections if watch else list_collections
        return await shown(server, limit, as_json=as_json)

    run(main())


@click.command()
@collection_argument
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Members at most."
)
@click.option("--all", "everyone", is_flag=True, help="Every member.")
@server_option
@json_option
def collection(collection_id: str, limit: int, everyone: bool, server: str, as_json: bool) -> None:
    """Shows how COLLECTION and its members stand."""

    async def main() -> Exit:
        from cli.collections import show_collection
        from cli.listing import EVERYTHING

        most = EVERYTHING if everyone else limit
        return await show_collection(server, collection_id, most, as_json=as_json)

    run(main())


@click.command()
@collection_argument
@click.option("-f", "--format", "name", type=click.Choice(REPORTS), default="md", show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write it there instead of to stdout; a folder gets it under a name of its own.",
)
@click.option(
    "--captions",
    type=click.Choice(FORMATS),
    help="Format of the captions in a zip.  [default: srt]",
)
@server_option
def report(
    collection_id: str, name: str, output: Path | None, captions: str | None, server: str
) -> None:
    """Fetches one report over all members of COLLECTION, or a zip of their captions."""
    if captions and name != "zip":
        raise click.UsageError("--captions is for -f zip")
    if output is None and name in BINARY_REPORTS and sys.stdout.isatty():
        raise click.UsageError(f"a {name} is nothing for a terminal: give -o FILE, or pipe it")

    async def main() -> Exit:
        from cli.aggregates import print_report, report_request

        request = report_request(collection_id, name, captions or "srt")
        return await print_report(server, request, output)

    run(main())
