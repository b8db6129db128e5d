"""export, forget, retention: what is stored about one owner."""

from datetime import timedelta
from pathlib import Path

import click

from cli.execution import async_command
from cli.exits import Exit
from cli.options import call_client, dry_run_option, json_option, server_command, server_option


@click.command()
@click.argument("owner", default="")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Write the zip to this file; in a directory the server names it.",
)
@server_command("owners.export")
def export() -> None:
    """Writes everything stored about OWNER into one zip; without OWNER about you."""


@click.command()
@click.argument("owner")
@click.option(
    "--confirm",
    "confirmation",
    required=True,
    metavar="TEXT",
    help='Must be "ERASE" and the owner: "ERASE ana".',
)
@dry_run_option
@server_command("owners.forget")
def forget() -> None:
    """Erases everything stored about OWNER, tokens and sessions included."""


@click.command()
@click.argument("owner", default="")
@click.option(
    "--days",
    type=click.FloatRange(0, 36_500),
    help="Remove what ended longer ago than this.",
)
@click.option("--default", "usual", is_flag=True, help="As the settings say, again.")
@server_option
@json_option
@async_command
async def retention(
    owner: str, days: float | None, usual: bool, server: str, as_json: bool
) -> Exit:
    """Sets how long ended work of OWNER is kept; without OWNER lists whose time is their own."""
    if owner and (days is None) != usual:
        raise click.UsageError("give either --days or --default")
    if not owner and (usual or days is not None):
        raise click.UsageError("whose? give the OWNER, too")
    age = None if days is None else timedelta(days=days)
    function = "owners.set_retention" if owner else "owners.list_retentions"
    given = {"owner": owner, "age": age} if owner else {}
    return await call_client(function, server, **given, as_json=as_json)
