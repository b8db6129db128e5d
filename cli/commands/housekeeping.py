"""stats, cleanup, factory-reset."""

from datetime import timedelta
from math import isnan

import click

from cli.exits import Exit
from cli.options import json_option, server_option
from cli.running import run

# A thousand years: no job is older, and any date can be reckoned back that far.
MOST_HOURS = 24 * 366 * 1000


def _as_age(context: click.Context, option: click.Parameter, hours: float) -> timedelta:
    if isnan(hours):  # not below the least, nor above the most
        raise click.BadParameter("'nan' is no number of hours.", context, option)
    return timedelta(hours=hours)


dry_run_option = click.option("--dry-run", is_flag=True, help="Only count what would go.")


@click.command()
@server_option
@json_option
def stats(server: str, as_json: bool) -> None:
    """Shows how many jobs a mesh has, and how much it stores."""

    async def main() -> Exit:
        from cli.housekeeping import show_stats

        return await show_stats(server, as_json=as_json)

    run(main())


@click.command()
@click.option(
    "--max-age-hours",
    "max_age",
    callback=_as_age,
    type=click.FloatRange(0, MOST_HOURS),
    default=24,
    show_default=True,
    help="Jobs that ended, and collections that were settled, longer ago than this go.",
)
@dry_run_option
@server_option
@json_option
def cleanup(max_age: timedelta, dry_run: bool, server: str, as_json: bool) -> None:
    """Removes ended jobs and settled collections that are old, with every trace."""

    async def main() -> Exit:
        from cli.housekeeping import clean_up

        return await clean_up(server, max_age, dry_run=dry_run, as_json=as_json)

    run(main())


@click.command("factory-reset")
@click.option(
    "--confirm",
    "confirmation",
    required=True,
    metavar="TEXT",
    help='Must be "ERASE EVERYTHING".',
)
@dry_run_option
@server_option
@json_option
def factory_reset(confirmation: str, dry_run: bool, server: str, as_json: bool) -> None:
    """Removes every job, collection and file of a mesh; exits with 4 if a service could not."""

    async def main() -> Exit:
        from cli.housekeeping import reset

        return await reset(server, confirmation, dry_run=dry_run, as_json=as_json)

    run(main())
