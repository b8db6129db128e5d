"""health, stats, webhooks, cleanup, factory-reset."""

import click

from cli.options import dry_run_option, limit_option, server_command
from cli.params import AgeParam


@click.command()
@server_command("admin.show_health")
def health() -> None:
    """Shows the health of every component; exits with 4 unless a job would run."""


@click.command()
@server_command("admin.show_stats")
def stats() -> None:
    """Shows the number of jobs in each state, the queue depth and the storage used."""


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
@server_command("admin.list_deliveries")
def webhooks() -> None:
    """Lists webhook deliveries, sent and pending, newest first."""


@click.command()
@click.option("--subject", default="", metavar="NAME", help="Only what this subject did.")
@click.option(
    "--hours", "age", type=AgeParam(), help="Only the last hours.  [default: all that is kept]"
)
@limit_option
@server_command("admin.list_audit")
def audit() -> None:
    """Lists who changed what, and who was refused, newest first; needs a login."""


@click.command()
@click.option(
    "--max-age-hours",
    "max_age",
    type=AgeParam(),
    default=24,
    show_default=True,
    help="Remove jobs that ended, and collections that settled, longer ago than this.",
)
@click.option(
    "--logs",
    is_flag=True,
    help="Also remove log files of `ytcaption up` that were moved aside longer ago than that.",
)
@dry_run_option
@server_command("admin.clean_up")
def cleanup() -> None:
    """Removes old ended jobs and settled collections, with their events and files."""


@click.command("factory-reset")
@click.option(
    "--confirm",
    "confirmation",
    required=True,
    metavar="TEXT",
    help='Must be "ERASE EVERYTHING".',
)
@dry_run_option
@server_command("admin.reset")
def factory_reset() -> None:
    """Removes every job, collection and file of a mesh; exits with 4 if a service failed."""
