"""jobs, job, captions, cancel, delete."""

from pathlib import Path
from typing import Any

import click

from cli.execution import async_command
from cli.exits import Exit
from cli.job_spec import to_cue_rules
from cli.options import (
    FORMATS,
    check_watch_limit,
    cue_options,
    limit_option,
    server_command,
    server_option,
    watch_option,
    word_cues_option,
)

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
@server_command
async def jobs(  # noqa: PLR0913 # one for each option
    states: tuple[str, ...], search: str, limit: int, watch: bool, server: str, as_json: bool
) -> Exit:
    """Lists jobs, newest first."""
    if watch:
        check_watch_limit(limit)
    from cli.client.jobs import list_jobs

    return await list_jobs(server, states, search, limit, watch=watch, as_json=as_json)


@click.command()
@job_argument
@server_command
async def job(job_id: str, server: str, as_json: bool) -> Exit:
    """Shows the state of JOB."""
    from cli.client.jobs import show_job

    return await show_job(server, job_id, as_json=as_json)


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
    from cli.client.jobs import print_captions
    from cli.files.captions import FORMATS as FORMAT_IDS
    from ytcaption.v1.pipeline_service_pb2 import GetCaptionsRequest

    request = GetCaptionsRequest(
        job_id=job_id,
        format=FORMAT_IDS[given["name"]],
        cue_rules=to_cue_rules(given),
        word_cues=given["word_cues"],
        translated=given["translated"],
    )
    return await print_captions(given["server"], request, given["output"])


@click.command()
@id_argument
@click.option("--note", default="", help="The reason, for people.")
@server_command
async def cancel(wanted: str, note: str, server: str, as_json: bool) -> Exit:
    """Cancels the job or the collection ID; captions so far stay readable."""
    from cli.client.id_lookup import cancel

    return await cancel(server, wanted, note, as_json=as_json)


@click.command()
@id_argument
@server_command
async def delete(wanted: str, server: str, as_json: bool) -> Exit:
    """Deletes the job or the collection ID with all its data; cancels it first if it runs."""
    from cli.client.id_lookup import delete

    return await delete(server, wanted, as_json=as_json)
