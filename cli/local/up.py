"""`ytcaption up`: the whole mesh in the foreground, until it is stopped."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click
from platformdirs import user_data_dir

from cli.channel import call, connected
from cli.exits import CommandError, Exit
from cli.local.directories import data_directory
from cli.local.mesh import NATS, SERVICES, STAGES, MeshPlan, phases, reachable, tls_of_services
from cli.local.supervisor import supervised
from cli.render.screen import Screen
from cli.token_files import file_of_up, link_of, token_file_of_up
from mesh import broker
from mesh.addresses import free_ports, is_loopback, is_taken, split
from mesh.old_names import meaningless, overridden
from mesh.private import private_folder
from mesh.tls import PLAIN
from mesh.tokens import read_token
from ytcaption.v1.auth_service_pb2 import CreateLinkRequest

GRACE_SECONDS = 10.0
LOOPBACK = "127.0.0.1"
OWN_TOKEN = "ORCHESTRATOR_TOKEN_FILE"  # noqa: S105 # the variable's name
CHOSEN = {
    "GATEWAY_LISTEN": "choose with --http-host and --http-port",
    **{f"ORCHESTRATOR_{name.upper()}": "up starts the stages itself" for name in STAGES},
}
"""What `up` sets itself, and what to do instead of a variable of the earlier system."""
OFF = ("0", "false", "off", "no", "n", "f")
"""What the setting takes for false."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The command line of `up`."""

    host: str
    port: int
    metrics_port: int
    """The first of the metrics ports; 0 serves no metrics."""

    data_dir: Path | None
    allow_private_addresses: bool
    http_host: str = LOOPBACK
    http_port: int = 0
    """0 runs no gateway."""

    nats_port: int = broker.PORT
    """0 lets the system choose."""

    certs: Path | None = None
    """A folder as `ytcaption certs init` makes it; all services then use TLS."""

    insecure_listen: bool = False


async def bring_up(options: UpOptions) -> Exit:
    """Runs the mesh until it is cancelled, which is its normal end."""
    data_dir = (options.data_dir or Path(user_data_dir("ytcaption", appauthor=False))).absolute()
    with data_directory(data_dir), Screen() as screen, ExitStack() as stack:
        plan = plan_for(options, data_dir)
        refuse_open_ports(plan)
        refuse_taken_ports(plan)
        log_dir = private_folder(data_dir / "logs")
        plan = replace(token_file_of(plan), log_dir=log_dir)
        if plan.token_file is not None and not os.environ.get(OWN_TOKEN):
            stack.enter_context(token_file_of_up(plan.listen["orchestrator"]))
        screen.line(f"logs: {log_dir}")
        for line in unused_variables(os.environ):
            screen.line(line)
        try:
            async with supervised(
                phases(plan), log_dir, grace_seconds=plan.grace_seconds, display=screen
            ):
                _print_ready(plan, options.certs)
                await _print_page(plan)
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            screen.line("stopped")
    return Exit.OK


def plan_for(options: UpOptions, data_dir: Path) -> MeshPlan:
    """Only the orchestrator and the gateway listen beyond loopback: clients call no other."""
    hosts = dict.fromkeys(SERVICES, LOOPBACK) | {"orchestrator": _bracketed(options.host)}
    first = options.metrics_port
    tls = tls_of_services(options.certs, os.environ)
    if any(tls[name].certificate for name in SERVICES) and not tls["orchestrator"].ca:
        message = "TLS of a gRPC service needs ORCHESTRATOR_TLS_CA: they are called with it"
        raise CommandError(message, Exit.REFUSED)
    measured = (*SERVICES, "gateway") if options.http_port else SERVICES
    return MeshPlan(
        listen={name: f"{hosts[name]}:{options.port + at}" for at, name in enumerate(SERVICES)},
        metrics=(
            {name: f"{LOOPBACK}:{first + at}" for at, name in enumerate(measured)} if first else {}
        ),
        nats_port=options.nats_port or free_ports(1)[0],
        data_dir=data_dir / "nats",
        work_dir=data_dir / "work",
        grace_seconds=GRACE_SECONDS,
        allow_private_addresses=options.allow_private_addresses,
        http=f"{_bracketed(options.http_host)}:{options.http_port}" if options.http_port else "",
        tls=tls,
        insecure_listen=options.insecure_listen,
        measure_backends=True,
    )


def refuse_open_ports(plan: MeshPlan) -> None:
    """Fails before anything starts if strangers could reach a port without TLS or a login.

    The services refuse it too; one that may is allowed by its own variable.
    """
    addresses = {**plan.listen, "gateway": plan.http} if plan.http else plan.listen
    for name, address in addresses.items():
        allowed = plan.insecure_listen or os.environ.get(f"{name.upper()}_INSECURE_LISTEN")
        if allowed or is_loopback(split(address)[0]):
            continue
        if not plan.tls[name].certificate:
            raise CommandError(
                f"{name} on {address} without TLS is refused: make certificates with `ytcaption "
                "certs init FOLDER` and give --certs FOLDER, or --insecure-listen",
                Exit.REFUSED,
            )
        if not (wants_login(os.environ) or plan.tls[name].names):
            raise CommandError(
                f"{name} on {address} without a login is refused: leave ORCHESTRATOR_LOGIN out, "
                f"set {name.upper()}_TLS_PEERS, or give --insecure-listen",
                Exit.REFUSED,
            )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def refuse_taken_ports(plan: MeshPlan) -> None:
    """Fails before anything starts if a port cannot be used."""
    for what, addresses, option in (
        ("", plan.listen, "--port"),
        (" metrics", plan.metrics, "--metrics-port"),
        ("", {"gateway": plan.http} if plan.http else {}, "--http-port"),
        ("", {"nats": f"{LOOPBACK}:{plan.nats_port}"}, "--nats-port"),
    ):
        for name, address in addresses.items():
            if is_taken(address):
                raise CommandError(
                    f"cannot listen on {address} ({name}{what}): the port is taken, or the "
                    f"address is not this machine's; stop what uses it, or choose with {option}",
                    Exit.UNAVAILABLE,
                )


def unused_variables(environ: Mapping[str, str]) -> list[str]:
    """A line for each variable of the earlier system that is set and changes nothing here."""
    lines = [f"{name} has no meaning here: {why}" for name, why in meaningless(environ)]
    lines += [
        f"{name} has no meaning here: {CHOSEN[ours]}" for name, ours in overridden(environ, CHOSEN)
    ]
    return lines


def _print_ready(plan: MeshPlan, certs: Path | None) -> None:
    where = ", ".join(f"{name} {address}" for name, address in plan.listen.items())
    click.echo(f"ready: {where}, nats {LOOPBACK}:{plan.nats_port}")
    tls = plan.tls.get(NATS, PLAIN)
    click.echo(
        f"events: {broker.url_of(plan.nats_port, tls)}, with a key: producer.nk, listener.nk, "
        f"worker.nk or bridge.nk in {plan.credentials_dir}"
    )
    if reachable(plan.listen["orchestrator"]) != "127.0.0.1:50051":
        click.echo(f"use it with: --server {reachable(plan.listen['orchestrator'])}")
    if certs is not None:
        files = {"CA": "ca.crt", "CERTIFICATE": "client.crt", "KEY": "client.key"}
        given = (f"YTCAPTION_TLS_{key}={certs.absolute() / name}" for key, name in files.items())
        click.echo(f"commands need: {' '.join(given)}")
    if plan.http:
        scheme = "https" if plan.tls["gateway"].certificate else "http"
        click.echo(f"web page: {scheme}://{reachable(plan.http)}")
    if plan.token_file is not None:
        click.echo(f"token, for programs: {plan.token_file}")
        if plan.metrics:
            click.echo(f"token of the metrics, for Prometheus: {plan.metrics_token}")


async def _print_page(plan: MeshPlan) -> None:
    """Prints a link that logs a browser in, where there is a login."""
    if not plan.http or plan.token_file is None:
        return
    tls = plan.tls["gateway"]
    address = reachable(plan.listen["orchestrator"])
    async with connected(address, tls, read_token(str(plan.token_file))) as server:
        made = await call(server.auth.CreateLink, CreateLinkRequest())
    scheme = "https" if tls.certificate else "http"
    link = link_of(f"{scheme}://{reachable(plan.http)}", made.code)
    click.echo(f"log a browser in (once, within ten minutes): {link}")


def wants_login(environ: Mapping[str, str]) -> bool:
    """Whether callers need a token: they do, unless ORCHESTRATOR_LOGIN says otherwise."""
    return environ.get("ORCHESTRATOR_LOGIN", "").lower() not in OFF


def token_file_of(plan: MeshPlan) -> MeshPlan:
    """The plan with the file of its first token, if it has a login.

    That is the user's own, which commands find by YTCAPTION_TOKEN_FILE, or one that is yet to be
    made.
    """
    if not wants_login(os.environ):
        return plan
    own = os.environ.get(OWN_TOKEN)
    file = Path(own).absolute() if own else file_of_up(plan.listen["orchestrator"])
    return replace(plan, token_file=file)
