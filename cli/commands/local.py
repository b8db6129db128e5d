"""up, doctor."""

from pathlib import Path
from typing import Any

import click

from cli.execution import async_command
from cli.exits import Exit
from cli.options import json_option


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address the orchestrator listens on."
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_500),
    default=50_051,
    show_default=True,
    help="Port of the orchestrator; the stages use the ports after it, on loopback.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_500),
    default=9101,
    show_default=True,
    help="First of the Prometheus ports, one for each service, on loopback; 0 turns them off.",
)
@click.option(
    "--http-host",
    default="127.0.0.1",
    show_default=True,
    help="Address the gateway listens on.",
)
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    default=8000,
    show_default=True,
    help="Port of the web page and the HTTP routes; 0 turns them off.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of jobs and logs.  [default: the user's data directory]",
)
@click.option(
    "--allow-private-addresses",
    is_flag=True,
    help="Let jobs fetch from this machine and its private network.",
)
@async_command
async def up(**options: Any) -> Exit:
    """Runs the whole mesh on this machine until Ctrl-C."""
    from cli.local.up import UpOptions, bring_up

    return await bring_up(UpOptions(**options))


@click.command()
@json_option
@async_command
async def doctor(as_json: bool) -> Exit:
    """Checks what this machine needs; names what is missing and how to install it."""
    from cli.local.doctor import examine

    return await examine(as_json=as_json)
