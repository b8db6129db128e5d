"""health, stats, webhooks, cleanup, factory-reset."""

from datetime import timedelta

import click

from cli.exits import Exit
from cli.options import dry_run_option, limit_option, server_command
from cli.params import AgeParam


@click.command()
@server_command
async def health(server: str, as_json: bool) -> Exit:
    """Shows the health of every component; exits with 4 unless a job would run."""
    from cli.client.admin import show_health

    return await show_health(server, as_json=as_json)


@click.command()
@server_command
async def stats(server: str, as_json: bool) -> Exit:
    """Shows the number of jobs in each state, the queue depth and the storage used."""
    from cli.client.admin import show_stats

    return await show_stats(server, as_json=as_json)


@click.command()
@click.option("--job", "job_id", default="", metavar="ID", help="Only those about this job.")
@click.option(
    "--collection",
    "collection_id",
    default="",
    metavar="ID",
    help="Only those about this collection.",
)
@limit_option
@server_command
async def webhooks(job_id: str, collection_id: str, limit: int, server: str, as_json: bool) -> Exit:
    """Lists webhook deliveries, sent and pending, newest first."""
    from cli.client.admin import list_deliveries

    return await list_deliveries(server, job_id, collection_id, limit, as_json=as_json)


@click.command()
@click.option(
    "--max-age-hours",
    "max_age",
    type=AgeParam(),
    default=24,
    show_default=True,
    help="Remove jobs that ended, and collections that settled, longer ago than this.",
)
@dry_run_option
@server_command
async def cleanup(max_age: timedelta, dry_run: bool, server: str, as_json: bool) -> Exit:
    """Removes old ended jobs and settled collections, with their events and files."""
    from cli.client.admin import clean_up

    return await clean_up(server, max_age, dry_run=dry_run, as_json=as_json)


@click.command("factory-reset")
@click.option(
    "--confirm",
    "confirmation",
    required=True,
    metavar="TEXT",
    help='Must be "ERASE EVERYTHING".',
)
@dry_run_option
@server_command
async def factory_reset(confirmation: str, dry_run: bool, server: str, as_json: bool) -> Exit:
    """Removes every job, collection and file of a mesh; exits with 4 if a service failed."""
    from cli.client.admin import reset

    return await reset(server, confirmation, dry_run=dry_run, as_json=as_json)
