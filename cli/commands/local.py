"""up, health, doctor."""

from pathlib import Path
from typing import Any

import click

from cli.exits import Exit
from cli.options import json_option, server_option
from cli.running import run


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where clients may connect.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_532),
    default=50_051,
    show_default=True,
    help="Port of the orchestrator; the stages take the three after it, on loopback.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_531),
    default=9101,
    show_default=True,
    help="First of five ports for Prometheus, on loopback; 0 turns them off.",
)
@click.option(
    "--http-host",
    default="127.0.0.1",
    show_default=True,
    help="Where browsers may connect.",
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
    help="Where jobs and logs are kept.  [default: the user's data directory]",
)
@click.option(
    "--allow-private-addresses",
    is_flag=True,
    help="Let jobs fetch from this machine and its private network.",
)
def up(**wishes: Any) -> None:
    """Runs the whole mesh on this machine until Ctrl-C."""

    async def main() -> Exit:
        from cli.up import Wish, bring_up

        return await bring_up(Wish(**wishes))

    run(main())


@click.command()
@server_option
@json_option
def health(server: str, as_json: bool) -> None:
    """Shows how every part of a mesh is; exits with 4 unless a job would run."""

    async def main() -> Exit:
        from cli.health import show_health

        return await show_health(server, as_json=as_json)

    run(main())


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Checks what this machine needs; says what is missing and how to get it."""

    async def main() -> Exit:
        from cli.doctor import examine

        return await examine(as_json=as_json)

    run(main())
