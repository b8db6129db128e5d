"""types, types add, types remove."""

import click

from cli.execution import run
from cli.options import call_client, json_option, server_command, server_option
from cli.params import DurationParam

ROLES = ("collector", "executor")
role_argument = click.argument("role", type=click.Choice(ROLES))
name_argument = click.argument("name", metavar="TYPE")


@click.group(invoke_without_command=True)
@server_option
@json_option
@click.pass_context
def types(context: click.Context, server: str, as_json: bool) -> None:
    """Lists collectors and executors that collections may name; adds and removes them."""
    if context.invoked_subcommand is None:
        run(call_client("types.list_types", server, as_json=as_json))


@types.command()
@role_argument
@name_argument
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="HOST:PORT",
    help="A replica of the service, which has to answer now; may be repeated.",
)
@click.option(
    "--queue", is_flag=True, help="Programs take its tasks as JSON from a queue of the broker."
)
@click.option(
    "--max-in-flight",
    type=click.IntRange(1, 1000),
    help="Tasks under way at once, at most.  [default: as the orchestrator is set]",
)
@click.option(
    "--timeout",
    type=DurationParam(),
    metavar="DURATION",
    help="An attempt ends after this long.  [default: as the orchestrator is set]",
)
@server_command("types.add")
def add() -> None:
    """Registers TYPE, or replaces its registration; only admins."""


@types.command()
@role_argument
@name_argument
@server_command("types.remove")
def remove() -> None:
    """Takes the registration of TYPE back; its tasks that have not ended fail. Only admins."""
