"""dlq list, show, replay, purge."""

import sys
from datetime import timedelta

import click

from cli.execution import run
from cli.exits import Exit
from cli.options import dry_run_option, json_option, limit_option, server_command, server_option
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
@server_command
async def list_(reason: str, limit: int, server: str, as_json: bool) -> Exit:
    """Lists dead letters, newest first."""
    from cli.client.dead_letters import list_letters

    return await list_letters(server, reason, limit, as_json=as_json)


@dlq.command()
@letter_argument
@server_command
async def show(letter_id: str, server: str, as_json: bool) -> Exit:
    """Shows LETTER in full; the letter of a job has the job's id."""
    from cli.client.dead_letters import show_letter

    return await show_letter(server, letter_id, as_json=as_json)


@dlq.command()
@letter_argument
@click.option("--wait", is_flag=True, help="Return when the job has ended.")
@server_command
async def replay(letter_id: str, wait: bool, server: str, as_json: bool) -> Exit:
    """Queues a dead job again with all its attempts, or sends an event or a webhook again."""
    from cli.client.dead_letters import replay_letter

    return await replay_letter(server, letter_id, wait=wait, as_json=as_json)


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
def purge(  # noqa: PLR0913 # one for each option
    job_id: str,
    reason: str,
    older_than: timedelta | None,
    dry_run: bool,
    yes: bool,
    server: str,
    as_json: bool,
) -> None:
    """Removes dead letters: all, or those that match every given option. Their jobs stay failed."""
    # Confirmed before the event loop runs: within it, Ctrl-C would have to wait for the answer.
    if not (dry_run or yes):
        _confirm(job_id, reason, older_than)

    async def main() -> Exit:
        from cli.client.dead_letters import purge_letters

        return await purge_letters(
            server, job_id, reason, older_than, dry_run=dry_run, as_json=as_json
        )

    run(main())


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
