"""transcribe, submit, watch."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.commands.jobs import id_argument
from cli.execution import async_command
from cli.exits import Exit
from cli.options import (
    USUAL_FORMATS,
    WORD_CUE_FORMATS,
    call_client,
    caption_files_options,
    job_options,
    json_lines_option,
    json_option,
    optional_server_option,
    require_server,
    server_option,
    submission_options,
    webhook_option,
    word_cues_option,
)
from mesh.job_options import grouped

if TYPE_CHECKING:
    from cli.files.captions import CaptionOutput
    from cli.files.sources import JobSpec
    from ytcaption.v1.job_pb2 import JobOptions, Priority


@click.command()
@click.argument("source")
@caption_files_options("Write caption files there.")
@job_options
@submission_options
@word_cues_option
@webhook_option
@optional_server_option("this job")
@json_lines_option
@click.option("-q", "--quiet", is_flag=True, help="Captions and errors only.")
@async_command
async def transcribe(source: str, **given: Any) -> Exit:
    """Captions SOURCE, an http(s) address or a local file.

    Captions appear on stdout while they are transcribed; progress and messages on stderr.
    Ctrl-C cancels the job; with -o the captions so far are kept.
    """
    if given["webhook_url"]:
        require_server("--webhook", given["server"])
    if given["word_cues"]:
        require_word_times(given)
    from cli.client.transcribe import TranscribeOptions, transcribe

    output = caption_output(given)
    flags = {name: given.pop(name) for name in ("server", "as_json", "quiet")}
    return await transcribe(TranscribeOptions(to_job_spec(source, given), output, **flags))


def require_word_times(given: dict[str, Any]) -> None:
    """Turns word timestamps on for --word-cues; refuses what contradicts it."""
    if given["word_timestamps"] is False:
        raise click.UsageError("--word-cues needs --word-timestamps")
    if not set(_wanted_formats(given)) & set(WORD_CUE_FORMATS):
        raise click.UsageError(f"--word-cues need one of: -f {', -f '.join(WORD_CUE_FORMATS)}")
    given["word_timestamps"] = True


def caption_output(given: dict[str, Any]) -> "CaptionOutput":
    """Takes the caption files to write out of what was given; neither -o nor -f: none."""
    from cli.files.captions import CaptionOutput

    formats = _wanted_formats(given)
    del given["formats"]
    return CaptionOutput(given.pop("output") or Path(), formats, given.pop("word_cues"))


def _wanted_formats(given: dict[str, Any]) -> tuple[str, ...]:
    return given["formats"] or (USUAL_FORMATS if given["output"] is not None else ())


def to_job_spec(source: str, given: dict[str, Any]) -> "JobSpec":
    """The request for one job; takes everything about the job out of `given`."""
    from cli.files.sources import JobSpec, parse_source

    about = {name: given.pop(name) for name in ("force", "caller", "webhook_url", "group")}
    priority = to_priority(given.pop("priority"))
    return JobSpec(parse_source(source), to_job_options(given), priority=priority, **about)


def to_job_options(given: dict[str, Any]) -> "JobOptions":
    """The options the user gave; the server fills in the rest."""
    from mesh.messages import fill
    from ytcaption.v1.job_pb2 import JobOptions

    options = JobOptions()
    fill(options, grouped(given))
    return options


def to_priority(name: str) -> "Priority.ValueType":
    """The priority as the contract has it."""
    from ytcaption.v1.job_pb2 import Priority

    return Priority.Value(f"PRIORITY_{name.upper()}")


@click.command()
@click.argument("source")
@job_options
@submission_options
@webhook_option
@click.option("--wait", is_flag=True, help="Return when the job has ended.")
@server_option
@json_option
@async_command
async def submit(source: str, server: str, wait: bool, as_json: bool, **given: Any) -> Exit:
    """Submits SOURCE to a running mesh and prints the job's id."""
    spec = to_job_spec(source, given)
    return await call_client("transcribe.submit", server, spec=spec, wait=wait, as_json=as_json)


@click.command()
@id_argument
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Only events after this sequence number of the event log.",
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="Every update as one JSON object a line.")
@click.option("-q", "--quiet", is_flag=True, help="Captions and errors only.")
@async_command
async def watch(server: str, **given: Any) -> Exit:
    """Follows the job or the collection ID from its beginning to its end.

    Ctrl-C leaves it running.
    """
    return await call_client("id_lookup.watch", server, **given)
