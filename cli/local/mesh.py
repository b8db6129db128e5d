"""A local mesh: its processes, the settings of each, and an embedded mesh for one command.

An embedded mesh has free ports and a temporary directory, and leaves nothing behind.
"""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from cli.channel import (
    Server,
    answers_http,
    connected,
    is_serving,
    model_preparation,
    tls_of_command,
)
from cli.local.directories import run_directory
from cli.local.supervisor import ProcessSpec, StatusDisplay, supervised
from cli.render.text import for_terminal
from cli.token_files import token_of_command
from mesh import broker
from mesh.addresses import free_ports, split
from mesh.credentials import seed_file
from mesh.errors import UnavailableError
from mesh.preparation import in_words
from mesh.tls import PLAIN, Tls, WatchedFiles
from mesh.tokens import read_token, write_token

STAGES = ("downloader", "normalizer", "transcriber")
SERVICES = ("orchestrator", *STAGES)
NATS = "nats"
"""The name of the broker's process and certificate."""
CALLERS = {"orchestrator": "gateway,client", "gateway": ""}
"""Names that may call a service with TLS; a stage is called by the orchestrator alone."""
# Model weights may have to be downloaded first.
MODEL_SECONDS = 1800
MIN_STORAGE_BYTES = 64 * 1024**2
MAX_STORAGE_BYTES = 16 * 1024**3
# No data has to survive, and a user waits for the prompt.
EMBEDDED_GRACE_SECONDS = 1.0
ATTEMPTS = 3
TOKEN_FILE = "token"  # noqa: S105 # its name


@dataclass(frozen=True, slots=True)
class MeshPlan:
    """The addresses and directories of a mesh."""

    listen: Mapping[str, str]
    """host:port of every service."""

    metrics: Mapping[str, str]
    """host:port of the metrics of each service that serves them."""

    nats_port: int
    data_dir: Path
    """Durable data."""

    work_dir: Path
    """Scratch files."""

    grace_seconds: float
    allow_private_addresses: bool = False
    http: str = ""
    """host:port of the gateway; empty runs none."""

    tls: Mapping[str, Tls] = field(default_factory=dict)
    """Of each service; plain text for those that are missing."""

    insecure_listen: bool = False

    measure_backends: bool = False
    """Whether the first start on a machine measures how the model computes fastest."""

    log_dir: Path | None = None
    """Of all processes; None: cleanups remove no log files."""

    token_file: Path | None = None
    """Holds the token of an admin; None: there is no login."""

    @property
    def credentials_dir(self) -> Path:
        """The keys with which clients log in to the broker, and the tokens of services."""
        return self.data_dir / broker.CREDENTIALS

    @property
    def stages_token(self) -> Path:
        """Where there is a login: the token without which stages refuse a call."""
        return self.credentials_dir / "stages.token"

    @property
    def metrics_token(self) -> Path:
        """Where there is a login: the token without which no metrics are shown."""
        return self.credentials_dir / "metrics.token"


def phases(plan: MeshPlan) -> list[list[ProcessSpec]]:
    """The processes in the order of their dependencies: broker, stages, orchestrator, gateway."""
    prefix = os.environ.get("ORCHESTRATOR_PREFIX") or "YTC"
    tls = plan.tls.get(NATS, PLAIN)
    configuration = broker.write_configuration(plan.data_dir, plan.nats_port, prefix, tls)
    if plan.token_file is not None:
        # New ones at each start: those that were shown to a taken port are worth nothing.
        write_token(plan.stages_token)
        write_token(plan.metrics_token)
    nats = ProcessSpec(
        NATS,
        broker.command(configuration),
        partial(broker.answers, plan.nats_port),
        # The others look by themselves.
        renewed=WatchedFiles(tls).changed if tls.certificate else None,
    )
    stages = [_service(name, plan, variables_of(name, plan)) for name in STAGES]
    variables = {**variables_of("orchestrator", plan), **_storage(plan)}
    orchestrator = _service("orchestrator", plan, variables)
    gateway = [[_service("gateway", plan, variables_of("gateway", plan))]] if plan.http else []
    return [[nats], stages, [orchestrator], *gateway]


def _service(name: str, plan: MeshPlan, variables: Mapping[str, str]) -> ProcessSpec:
    has_model, is_gateway = name == "transcriber", name == "gateway"
    listen, tls = variables[f"{name.upper()}_LISTEN"], plan.tls.get(name, PLAIN)
    # gRPC services accept the orchestrator's certificate.
    probe = plan.tls["orchestrator"] if tls.certificate and not is_gateway else tls
    return ProcessSpec(
        name,
        # -P: a directory named like a service in the working directory must not be imported.
        (sys.executable, "-P", "-m", name),
        partial(answers_http if is_gateway else is_serving, reachable(listen), probe),
        variables,
        activity=partial(_model_activity, reachable(listen), probe, plan) if has_model else None,
        start_seconds=MODEL_SECONDS if has_model else 60,
    )


def variables_of(name: str, plan: MeshPlan) -> dict[str, str]:
    """The environment variables that a plan sets for a service; its other settings are the
    user's.
    """
    is_gateway = name == "gateway"
    common = {
        "LISTEN": plan.http if is_gateway else plan.listen[name],
        "METRICS_LISTEN": plan.metrics.get(name, ""),
        # The reaper kills them after the whole of it.
        "GRACE_SECONDS": str(plan.grace_seconds / 2),
    }
    if plan.token_file is not None:
        if name in STAGES:
            common["TOKEN_FILE"] = str(plan.stages_token)
        # A value in the user's environment wins.
        if not os.environ.get(f"{name.upper()}_METRICS_TOKEN_FILE"):
            common["METRICS_TOKEN_FILE"] = str(plan.metrics_token)
    tls = plan.tls.get(name, PLAIN)
    common |= {f"TLS_{key.upper()}": value for key, value in asdict(tls).items()}
    if plan.insecure_listen:
        common["INSECURE_LISTEN"] = "true"
    if not is_gateway:  # it writes no files
        common["WORK_DIR"] = str(plan.work_dir / name)
    if is_gateway:
        common["ORCHESTRATOR"] = reachable(plan.listen["orchestrator"])
    elif name == "orchestrator":
        common |= _orchestrator_settings(plan)
    else:
        common |= _stage_settings(name, plan)
    return {f"{name.upper()}_{key}": value for key, value in common.items()}


def tls_of_services(certs: Path | None, environ: Mapping[str, str]) -> dict[str, Tls]:
    """The files of `ytcaption certs init`, and which callers each accepts; the environment wins.

    The broker has its own, unless the orchestrator trusts another authority.
    """
    given = {key: value for key, value in environ.items() if value}
    for name in (*SERVICES, "gateway") if certs else ():
        files = {"CERTIFICATE": f"{name}.crt", "KEY": f"{name}.key", "CA": "ca.crt"}
        values = {key: str(Path(certs or "", file).absolute()) for key, file in files.items()}
        values["PEERS"] = CALLERS.get(name, "orchestrator")
        given = {f"{name.upper()}_TLS_{key}": value for key, value in values.items()} | given
    found = {name: Tls.from_environment(name, given) for name in (*SERVICES, "gateway")}
    if certs and found["orchestrator"].ca == str((certs / "ca.crt").absolute()):
        certificate, key = (str((certs / f"{NATS}.{end}").absolute()) for end in ("crt", "key"))
        found[NATS] = Tls(certificate, key, found["orchestrator"].ca)
    for name, tls in found.items():
        tls.check(f"{name.upper()}_")
    return found


def _stage_settings(name: str, plan: MeshPlan) -> dict[str, str]:
    if name == "downloader" and plan.allow_private_addresses:
        return {"ALLOW_PRIVATE_ADDRESSES": "true"}
    # A value in the user's environment wins.
    chosen = "TRANSCRIBER_MEASURE_BACKENDS" in os.environ
    if name == "transcriber" and plan.measure_backends and not chosen:
        return {"MEASURE_BACKENDS": "true"}
    return {}


def _orchestrator_settings(plan: MeshPlan) -> dict[str, str]:
    stages = {name.upper(): reachable(plan.listen[name]) for name in STAGES}
    login = {
        "NATS_URL": broker.url_of(plan.nats_port, plan.tls.get(NATS, PLAIN)),
        "NATS_CREDENTIALS": str(seed_file(plan.credentials_dir, "orchestrator")),
    }
    if plan.log_dir is not None:
        login["LOG_DIR"] = str(plan.log_dir)
    if plan.token_file is not None:
        login |= {"LOGIN": "true", "TOKEN_FILE": str(plan.token_file)}
        login["STAGES_TOKEN_FILE"] = str(plan.stages_token)
    return {**login, **stages}


def _storage(plan: MeshPlan) -> dict[str, str]:
    # A value in the user's environment wins.
    chosen = "ORCHESTRATOR_STORAGE_BYTES" in os.environ
    return {} if chosen else {"ORCHESTRATOR_STORAGE_BYTES": str(storage_bytes(plan.data_dir))}


def storage_bytes(data_dir: Path) -> int:
    """The storage limit of the broker: half of the free disk, within bounds.

    Decided once for each data directory: stores keep the size they were created with.
    """
    note = data_dir / "storage-bytes"
    try:
        return int(note.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        half = shutil.disk_usage(data_dir).free // 2
        found = max(MIN_STORAGE_BYTES, min(MAX_STORAGE_BYTES, half))
        note.write_text(str(found), encoding="ascii")
        return found


async def _model_activity(address: str, tls: Tls, plan: MeshPlan) -> str:
    token = read_token(str(plan.stages_token)) if plan.token_file else ""
    preparing = await model_preparation(address, tls, token)
    return for_terminal(in_words(preparing)) if preparing else ""


def reachable(listen: str) -> str:
    """The address to call for a listen address: wildcard addresses become loopback."""
    host, port = split(listen)
    known = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"[{known}]:{port}" if ":" in known else f"{known}:{port}"


@dataclass(frozen=True, slots=True)
class EmbeddedMesh:
    """A mesh that one command started."""

    address: str
    """Of its orchestrator."""
    token: str
    """The only one it accepts."""


@asynccontextmanager
async def server_or_embedded(address: str | None, display: StatusDisplay) -> AsyncIterator[Server]:
    """Connects to the server at `address`; without one, to an embedded mesh for this block."""
    tls = tls_of_command() if address else PLAIN
    token = token_of_command(address, tls) if address else ""
    async with AsyncExitStack() as stack:
        if address is None:
            started = await stack.enter_async_context(embedded_mesh(display))
            address, token = started.address, started.token
        yield await stack.enter_async_context(connected(address, tls, token))


@asynccontextmanager
async def embedded_mesh(display: StatusDisplay) -> AsyncIterator[EmbeddedMesh]:
    """Runs an embedded mesh until the block ends."""
    with run_directory() as run_dir:
        token = write_token(run_dir / TOKEN_FILE)
        async with AsyncExitStack() as running:
            plan = await _start(run_dir, display, running)
            yield EmbeddedMesh(reachable(plan.listen["orchestrator"]), token)


async def _start(run_dir: Path, display: StatusDisplay, running: AsyncExitStack) -> MeshPlan:
    """Starts the mesh; tries other ports if one was taken after it was found free."""
    attempt = 1
    while True:
        plan = replace(embedded_plan(run_dir), token_file=run_dir / TOKEN_FILE)
        mesh = supervised(phases(plan), run_dir, grace_seconds=plan.grace_seconds, display=display)
        try:
            await running.enter_async_context(mesh)
        except UnavailableError as error:
            if attempt == ATTEMPTS or not _is_port_conflict(error):
                raise
            attempt += 1
        else:
            return plan


def _is_port_conflict(error: UnavailableError) -> bool:
    text = str(error).lower()
    return "cannot listen" in text or "address already in use" in text


def embedded_plan(run_dir: Path) -> MeshPlan:
    """Free ports, and everything below one directory."""
    nats_port, *ports = free_ports(1 + len(SERVICES))
    return MeshPlan(
        listen={name: f"127.0.0.1:{port}" for name, port in zip(SERVICES, ports, strict=True)},
        metrics={},
        nats_port=nats_port,
        data_dir=run_dir / "nats",
        work_dir=run_dir / "work",
        grace_seconds=EMBEDDED_GRACE_SECONDS,
        # It runs as the user, and reaches no more than the user does.
        allow_private_addresses=True,
    )
