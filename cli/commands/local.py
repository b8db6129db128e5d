"""up, certs, doctor."""

from pathlib import Path
from typing import Any

import click

from cli.execution import async_command
from cli.exits import CommandError, Exit
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
    "--nats-port",
    type=click.IntRange(0, 65_535),
    default=4222,
    show_default=True,
    help="Port of the broker, on loopback, for programs that send or read events; 0: any.",
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
@click.option(
    "--certs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Use TLS everywhere, with the certificates `ytcaption certs init` made there.",
)
@click.option(
    "--insecure-listen",
    is_flag=True,
    help="Allow --host and --http-host beyond loopback without TLS.",
)
@async_command
async def up(**options: Any) -> Exit:
    """Runs the whole mesh on this machine until Ctrl-C."""
    from cli.local.up import UpOptions, bring_up

    return await bring_up(UpOptions(**options))


@click.group()
def certs() -> None:
    """Certificates for a mesh whose owner has no authority of their own."""


@certs.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A host name or IP address under which services are called; may be repeated.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=397,
    show_default=True,
    help="How long the certificates are valid.",
)
@async_command
async def init(folder: Path, hosts: tuple[str, ...], days: int) -> Exit:
    """Makes an authority and a certificate for each service; again: renews the certificates."""
    try:
        from cli.local.certs import make_certificates
    except ImportError:
        remedy = "certificates need the package cryptography: pip install 'ytcaption[certs]'"
        raise CommandError(remedy, Exit.UNAVAILABLE) from None
    make_certificates(folder, hosts, days)
    return Exit.OK


@click.command()
@json_option
@click.option(
    "--public",
    is_flag=True,
    help="Check instead that strangers may reach the mesh: the settings in the environment.",
)
@click.option(
    "--up",
    is_flag=True,
    help="With --public: as `ytcaption up` would set them, behind a proxy.",
)
@async_command
async def doctor(as_json: bool, public: bool, up: bool) -> Exit:
    """Checks what this machine needs; names what is missing and how to install it."""
    if up and not public:
        raise click.UsageError("--up needs --public")
    if not public:
        from cli.local.doctor import examine

        return await examine(as_json=as_json)
    try:
        from cli.local.public import examine_public

        return await examine_public(as_json=as_json, up=up)
    except ImportError:
        remedy = "settings are read as services read them: pip install 'ytcaption[orchestrator]'"
        raise CommandError(remedy, Exit.UNAVAILABLE) from None
