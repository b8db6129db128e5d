"""dlq list, show, replay, purge."""

import sys
from datetime import timedelta
from typing import Any

import click

from cli.execution import run
from cli.exits import Exit
from cli.options import (
    call_client,
    dry_run_option,
    json_option,
    limit_option,
    server_command,
    server_option,
)
from cli.params import AgeParam

letter_argument = click.argument("letter_id", metavar="LETTER")

reason_option = click.option(
    "--reason", default="", metavar="REASON", help="Only those with this reason."
)


@click.group()
def dlq() -> None:
    """Dead letters: jobs, events and webhooks that are not retried any more."""


@dlq.command("list")
@reason_option
@limit_option
@server_command("dead_letters.list_letters")
def list_() -> None:
    """Lists dead letters, newest first."""


@dlq.command()
@letter_argument
@server_command("dead_letters.show_letter")
def show() -> None:
    """Shows LETTER in full; the letter of a job has the job's id."""


@dlq.command()
@letter_argument
@click.option("--wait", is_flag=True, help="Return when the job has ended.")
@server_command("dead_letters.replay_letter")
def replay() -> None:
    """Queues a dead job again with all its attempts, or sends an event or a webhook again."""


@dlq.command()
@click.option(
    "--job", "job_id", default="", metavar="LETTER", help="Only this one; a job's has its id."
)
@reason_option
@click.option(
    "--older-than",
    type=AgeParam(),
    metavar="HOURS",
    help="Only letters older than this.",
)
@dry_run_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@server_option
@json_option
def purge(yes: bool, server: str, **given: Any) -> None:
    """Removes dead letters: all, or those that match every given option. Their jobs stay failed."""
    # Confirmed before the event loop runs: within it, Ctrl-C would have to wait for the answer.
    if not (given["dry_run"] or yes):
        _confirm(given["job_id"], given["reason"], given["older_than"])
    run(call_client("dead_letters.purge_letters", server, **given))


def _confirm(job_id: str, reason: str, older_than: timedelta | None) -> None:
    from cli.render.text import for_terminal

    which = [
        f" of {job_id}" if job_id else "",
        f" with {reason}" if reason else "",
        "" if older_than is None else f" older than {older_than / timedelta(hours=1):g} hours",
    ]
    everything = "" if any(which) else "all "
    question = for_terminal(f"Remove {everything}dead letters{''.join(which)}?")
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        raise click.UsageError("purge needs a confirmation: give --yes") from None
    if not agreed:
        click.echo("nothing was removed", err=True)
        sys.exit(Exit.OK)
