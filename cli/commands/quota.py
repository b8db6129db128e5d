"""quota."""

import click

from cli.options import server_command
from cli.params import QuotaParam


@click.command()
@click.argument("owner", required=False)
@click.option(
    "--set",
    "limits",
    type=QuotaParam(),
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a limit first: a number (stored_bytes also as 20GB), none, or default; only admins. "
    "May be repeated.",
)
@server_command("quotas.show")
def quota() -> None:
    """Shows the limits of OWNER, the subject of a token, and what is used; without OWNER yours."""
