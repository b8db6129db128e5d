"""token create, list, revoke, logout, init, link."""

from pathlib import Path

import click

from cli.execution import async_command
from cli.exits import Exit
from cli.options import server_command
from cli.params import AgeParam

ROLES = ("reader", "submitter", "operator", "admin")


@click.group()
def token() -> None:
    """Tokens: who may call a mesh, and what they may do."""


@token.command()
@click.argument("subject")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="submitter",
    show_default=True,
    help="What its holder may do; each role may do what those before it may.",
)
@click.option(
    "--hours",
    "lifetime",
    type=AgeParam(),
    help="How long it is valid.  [default: until it is revoked]",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="A group its holder belongs to; may be repeated. What it makes is shared with the first.",
)
@click.option("--note", default="", help="What it is for.")
@server_command("tokens.create")
def create() -> None:
    """Makes a token for SUBJECT, a person or a program, and prints it once."""


@token.command("list")
@click.option("--subject", default="", help="Only those of this subject.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most.")
@server_command("tokens.list_tokens")
def list_() -> None:
    """Lists tokens, newest first; without their secrets."""


@token.command()
@click.argument("token_id", metavar="ID")
@server_command("tokens.revoke")
def revoke() -> None:
    """Ends the token ID, and the browser sessions that were opened with it."""


@token.command()
@click.argument("subject")
@server_command("tokens.logout")
def logout() -> None:
    """Ends all browser sessions of SUBJECT; another's needs an admin."""


@token.command()
@click.option(
    "--page",
    default="http://127.0.0.1:8000",
    show_default=True,
    metavar="URL",
    help="Where the web page is.",
)
@server_command("tokens.link")
def link() -> None:
    """Prints a link that logs a browser in as you, once, within ten minutes."""


@token.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@async_command
async def init(file: Path) -> Exit:
    """Makes the first token of a mesh in FILE, for ORCHESTRATOR_TOKEN_FILE; needs no mesh."""
    from cli.token_files import make_first_token

    return make_first_token(file)
