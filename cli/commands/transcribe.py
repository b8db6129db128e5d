"""transcribe, submit, watch."""

from pathlib import Path
from typing import Any

import click

from cli.choices import to_order
from cli.commands.jobs import id_argument
from cli.exits import Exit
from cli.options import (
    USUAL_FORMATS,
    caption_files_options,
    job_options,
    json_lines_option,
    json_option,
    order_options,
    own_mesh_option,
    refuse_a_webhook_nobody_would_send,
    server_option,
    webhook_option,
    word_cues_option,
)
from cli.running import run


@click.command()
@click.argument("source")
@caption_files_options("Write caption files there.")
@job_options
@order_options
@word_cues_option
@webhook_option
@own_mesh_option("this job")
@json_lines_option
@click.option("-q", "--quiet", is_flag=True, help="Captions and errors only.")
def transcribe(source: str, **given: Any) -> None:
    """Captions SOURCE, an http(s) address or a local file.

    Captions appear on stdout while they are heard; bars and everything else on stderr.
    Ctrl-C stops the job; what was heard until then is kept if -o was given.
    """
    refuse_a_webhook_nobody_would_send(given["webhook_url"], given["server"])
    if given["word_cues"]:
        ask_for_words(given)
    run(_transcribe(source, given))


def ask_for_words(given: dict[str, Any]) -> None:
    """Words in cues need the times of words, and a file to be in."""
    if given["word_timestamps"] is False:
        raise click.UsageError("--word-cues needs --word-timestamps")
    if "vtt" not in given["formats"] and (given["formats"] or given["output"] is None):
        raise click.UsageError("--word-cues are for VTT: add -f vtt")
    given["word_timestamps"] = True


async def _transcribe(source: str, given: dict[str, Any]) -> Exit:
    from cli.outputs import Output
    from cli.transcribing import Task, transcribe

    directory, formats = given.pop("output"), given.pop("formats")
    wanted = directory is not None or formats
    output = Output(directory or Path(), formats or USUAL_FORMATS, given.pop("word_cues"))
    task = {
        "output": output if wanted else None,
        "server": given.pop("server"),
        "json_lines": given.pop("as_json"),
        "quiet": given.pop("quiet"),
    }
    return await transcribe(Task(to_order(source, given), **task))


@click.command()
@click.argument("source")
@job_options
@order_options
@webhook_option
@click.option("--wait", is_flag=True, help="Return when the job has ended.")
@server_option
@json_option
def submit(source: str, **given: Any) -> None:
    """Gives SOURCE to a running mesh and prints the job's id."""
    run(_submit(source, given))


async def _submit(source: str, given: dict[str, Any]) -> Exit:
    from cli.following import submit

    server, as_json = given.pop("server"), given.pop("as_json")
    wait = given.pop("wait")
    return await submit(server, to_order(source, given), wait=wait, as_json=as_json)


@click.command()
@id_argument
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Only what follows this sequence number of the story.",
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="Every update as one JSON object a line.")
@click.option("-q", "--quiet", is_flag=True, help="Captions and errors only.")
def watch(wanted: str, after: int, server: str, as_json: bool, quiet: bool) -> None:
    """Follows the job or the collection ID from its beginning to its end.

    Ctrl-C leaves it running.
    """
    run(_watch(wanted, after, server, as_json, quiet))


async def _watch(wanted: str, after: int, server: str, as_json: bool, quiet: bool) -> Exit:
    from cli.following import watch

    return await watch(server, wanted, after, as_json=as_json, quiet=quiet)
