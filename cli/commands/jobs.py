"""jobs, job, captions, cancel, delete."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.execution import async_command
from cli.exits import Exit
from cli.options import (
    FORMATS,
    call_client,
    cue_options,
    limit_option,
    server_command,
    server_option,
    watch_option,
    word_cues_option,
)
from mesh.job_options import CUE_RULES

if TYPE_CHECKING:
    from ytcaption.v1.media_pb2 import CueRules

STATES = ("queued", "running", "succeeded", "failed", "cancelled")

job_argument = click.argument("job_id", metavar="JOB")
id_argument = click.argument("wanted", metavar="ID")


@click.command()
@click.option(
    "--state", "states", type=click.Choice(STATES), multiple=True, help="May be repeated."
)
@click.option(
    "--search",
    default="",
    metavar="TEXT",
    help="Only jobs with this in title, address or file name, or at the start of the id.",
)
@limit_option
@watch_option
@server_command("jobs.list_jobs")
def jobs() -> None:
    """Lists jobs, newest first."""


@click.command()
@job_argument
@server_command("jobs.show_job")
def job() -> None:
    """Shows the state of JOB."""


@click.command()
@job_argument
@click.option(
    "-f", "--format", "name", type=click.Choice(FORMATS), default="srt", show_default=True
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file instead of stdout.",
)
@cue_options
@word_cues_option
@click.option("--translated", is_flag=True, help="The translation instead of the original.")
@server_option
@async_command
async def captions(job_id: str, **given: Any) -> Exit:
    """Prints the captions of JOB; while it runs, those so far.

    Cue limits that are not given are the job's, then the defaults of its language.
    """
    from cli.files.captions import FORMATS as FORMAT_IDS
    from ytcaption.v1.pipeline_service_pb2 import GetCaptionsRequest

    request = GetCaptionsRequest(
        job_id=job_id,
        format=FORMAT_IDS[given["name"]],
        cue_rules=_cue_rules(given),
        word_cues=given["word_cues"],
        translated=given["translated"],
    )
    output = given["output"]
    return await call_client("jobs.print_captions", given["server"], request=request, output=output)


def _cue_rules(given: dict[str, Any]) -> "CueRules":
    """Takes the limits of cues out of what was given."""
    from mesh.messages import fill
    from ytcaption.v1.media_pb2 import CueRules

    rules = CueRules()
    fill(rules, {option.name: given.pop(option.name) for option in CUE_RULES.options})
    return rules


@click.command()
@id_argument
@click.option("--note", default="", help="The reason, for people.")
@server_command("id_lookup.cancel")
def cancel() -> None:
    """Cancels the job or the collection ID; captions so far stay readable."""


@click.command()
@id_argument
@server_command("id_lookup.delete")
def delete() -> None:
    """Deletes the job or the collection ID with all its data; cancels it first if it runs."""
