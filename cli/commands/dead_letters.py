"""dlq list, show, replay, purge."""

import sys

import click

from cli.exits import Exit
from cli.options import json_option, limit_option, server_option
from cli.running import run

CENTURY_HOURS = 876_000

letter_argument = click.argument("letter_id", metavar="LETTER")

reason_option = click.option(
    "--reason", default="", metavar="REASON", help="Only those with this reason."
)


@click.group()
def dlq() -> None:
    """Dead letters: jobs, events and webhooks that will not be tried again."""


@dlq.command("list")
@reason_option
@limit_option
@server_option
@json_option
def list_(reason: str, limit: int, server: str, as_json: bool) -> None:
    """Lists dead letters, newest first."""

    async def main() -> Exit:
        from cli.deadletters import list_letters

        return await list_letters(server, reason, limit, as_json=as_json)

    run(main())


@dlq.command()
@letter_argument
@server_option
@json_option
def show(letter_id: str, server: str, as_json: bool) -> None:
    """Shows all of LETTER; a dead job's has the job's id."""

    async def main() -> Exit:
        from cli.deadletters import show_letter

        return await show_letter(server, letter_id, as_json=as_json)

    run(main())


@dlq.command()
@letter_argument
@click.option("--wait", is_flag=True, help="Return when the job has ended.")
@server_option
@json_option
def replay(letter_id: str, wait: bool, server: str, as_json: bool) -> None:
    """Queues a dead job again, with all its attempts; sends an event or a webhook again."""

    async def main() -> Exit:
        from cli.deadletters import replay_letter

        return await replay_letter(server, letter_id, wait=wait, as_json=as_json)

    run(main())


@dlq.command()
@click.option(
    "--job", "job_id", default="", metavar="LETTER", help="Only this one; a job's has its id."
)
@reason_option
@click.option(
    "--older-than",
    type=click.FloatRange(0, CENTURY_HOURS),
    metavar="HOURS",
    help="Only of jobs that died longer ago.",
)
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@server_option
@json_option
def purge(  # noqa: PLR0913 # one for each option
    job_id: str,
    reason: str,
    older_than: float | None,
    dry_run: bool,
    yes: bool,
    server: str,
    as_json: bool,
) -> None:
    """Removes dead letters: all, or those all given options fit. Their jobs stay failed."""
    # Asked before the event loop runs: within it, Ctrl-C would have to wait for the answer.
    if not (dry_run or yes):
        _ask(job_id, reason, older_than)

    async def main() -> Exit:
        from cli.deadletters import purge_letters

        return await purge_letters(
            server, job_id, reason, older_than, dry_run=dry_run, as_json=as_json
        )

    run(main())


def _ask(job_id: str, reason: str, older_than: float | None) -> None:
    from cli.text import for_terminal

    which = [
        f" of {job_id}" if job_id else "",
        f" with {reason}" if reason else "",
        f" older than {older_than:g} hours" if older_than is not None else "",
    ]
    everything = "" if any(which) else "all "
    question = for_terminal(f"Remove {everything}dead letters{''.join(which)}?")
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        raise click.UsageError("nobody is there to confirm it; say --yes") from None
    if not agreed:
        click.echo("nothing was removed", err=True)
        sys.exit(Exit.OK)
