"""jobs, job, captions, cancel, delete."""

from pathlib import Path
from typing import Any

import click

from cli.choices import to_cue_rules
from cli.exits import Exit
from cli.options import (
    FORMATS,
    cue_options,
    json_option,
    limit_option,
    refuse_to_watch_too_many,
    server_option,
    watch_option,
    word_cues_option,
)
from cli.running import run

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
    help="Only those with this in title, address or file name, or at the beginning of the id.",
)
@limit_option
@watch_option
@server_option
@json_option
def jobs(  # noqa: PLR0913 # one for each option
    states: tuple[str, ...], search: str, limit: int, watch: bool, server: str, as_json: bool
) -> None:
    """Lists jobs, newest first."""
    if watch:
        refuse_to_watch_too_many(limit)

    async def main() -> Exit:
        from cli.jobs import Wanted, list_jobs, watch_jobs

        wanted = Wanted(states, search, limit)
        return await (watch_jobs if watch else list_jobs)(server, wanted, as_json=as_json)

    run(main())


@click.command()
@job_argument
@server_option
@json_option
def job(job_id: str, server: str, as_json: bool) -> None:
    """Shows how JOB stands."""

    async def main() -> Exit:
        from cli.jobs import show_job

        return await show_job(server, job_id, as_json=as_json)

    run(main())


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
    help="Write them there instead of to stdout.",
)
@cue_options
@word_cues_option
@click.option("--translated", is_flag=True, help="What was translated instead of what was said.")
@server_option
def captions(job_id: str, **given: Any) -> None:
    """Prints the captions of JOB; while it runs, those heard so far.

    Limits of cues that are not given are the job's, then those usual in its language.
    """

    async def main() -> Exit:
        from cli.jobs import print_captions
        from cli.outputs import FORMATS as FORMAT_IDS
        from ytcaption.v1.pipeline_service_pb2 import GetCaptionsRequest

        request = GetCaptionsRequest(
            job_id=job_id,
            format=FORMAT_IDS[given["name"]],
            cue_rules=to_cue_rules(given),
            word_cues=given["word_cues"],
            translated=given["translated"],
        )
        return await print_captions(given["server"], request, given["output"])

    run(main())


@click.command()
@id_argument
@click.option("--note", default="", help="Why, for people.")
@server_option
@json_option
def cancel(wanted: str, note: str, server: str, as_json: bool) -> None:
    """Stops the job or the collection ID; what was heard stays readable."""

    async def main() -> Exit:
        from cli.ending import cancel

        return await cancel(server, wanted, note, as_json=as_json)

    run(main())


@click.command()
@id_argument
@server_option
@json_option
def delete(wanted: str, server: str, as_json: bool) -> None:
    """Removes every trace of the job or the collection ID; if it runs, it is stopped first."""

    async def main() -> Exit:
        from cli.ending import delete

        return await delete(server, wanted, as_json=as_json)

    run(main())
