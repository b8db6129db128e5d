"""The processes of a local mesh, and the settings each gets by environment variables."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cli.channel import answers_http, is_serving, model_preparation
from cli.local.process import ProcessSpec
from cli.render.text import for_terminal
from mesh import broker
from mesh.addresses import split
from mesh.credentials import seed_file
from mesh.preparation import in_words

STAGES = ("downloader", "normalizer", "transcriber")
SERVICES = ("orchestrator", *STAGES)
# Model weights may have to be downloaded first.
MODEL_SECONDS = 1800
MIN_STORAGE_BYTES = 64 * 1024**2
MAX_STORAGE_BYTES = 16 * 1024**3


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

    @property
    def credentials_dir(self) -> Path:
        """The keys with which clients log in to the broker."""
        return self.data_dir / broker.CREDENTIALS


def phases(plan: MeshPlan) -> list[list[ProcessSpec]]:
    """The processes in the order of their dependencies: broker, stages, orchestrator, gateway."""
    prefix = os.environ.get("ORCHESTRATOR_PREFIX") or "YTC"
    configuration = broker.write_configuration(plan.data_dir, plan.nats_port, prefix)
    nats = ProcessSpec(
        "nats", broker.command(configuration), partial(broker.answers, plan.nats_port)
    )
    stages = [_service(name, plan, _stage_settings(name, plan)) for name in STAGES]
    orchestrator = _service("orchestrator", plan, _orchestrator_settings(plan))
    behind = {"ORCHESTRATOR": reachable(plan.listen["orchestrator"])}
    gateway = [[_service("gateway", plan, behind)]] if plan.http else []
    return [[nats], stages, [orchestrator], *gateway]


def _service(name: str, plan: MeshPlan, settings: Mapping[str, str]) -> ProcessSpec:
    has_model, is_gateway = name == "transcriber", name == "gateway"
    listen = plan.http if is_gateway else plan.listen[name]
    common = {
        "LISTEN": listen,
        "METRICS_LISTEN": plan.metrics.get(name, ""),
        # The reaper kills them after the whole of it.
        "GRACE_SECONDS": str(plan.grace_seconds / 2),
    }
    if not is_gateway:  # it writes no files
        common["WORK_DIR"] = str(plan.work_dir / name)
    return ProcessSpec(
        name,
        # -P: a directory named like a service in the working directory must not be imported.
        (sys.executable, "-P", "-m", name),
        partial(answers_http if is_gateway else is_serving, reachable(listen)),
        {f"{name.upper()}_{key}": value for key, value in {**common, **settings}.items()},
        activity=partial(_model_activity, reachable(listen)) if has_model else None,
        start_seconds=MODEL_SECONDS if has_model else 60,
    )


def _stage_settings(name: str, plan: MeshPlan) -> dict[str, str]:
    allowed = name == "downloader" and plan.allow_private_addresses
    return {"ALLOW_PRIVATE_ADDRESSES": "true"} if allowed else {}


def _orchestrator_settings(plan: MeshPlan) -> dict[str, str]:
    stages = {name.upper(): reachable(plan.listen[name]) for name in STAGES}
    # A value in the user's environment wins.
    chosen = "ORCHESTRATOR_STORAGE_BYTES" in os.environ
    storage = {} if chosen else {"STORAGE_BYTES": str(storage_bytes(plan.data_dir))}
    login = {
        "NATS_URL": broker.url_of(plan.nats_port),
        "NATS_CREDENTIALS": str(seed_file(plan.credentials_dir, "orchestrator")),
    }
    return {**login, **stages, **storage}


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


async def _model_activity(address: str) -> str:
    preparing = await model_preparation(address)
    return for_terminal(in_words(preparing)) if preparing else ""


def reachable(listen: str) -> str:
    """The address to call for a listen address: wildcard addresses become loopback."""
    host, port = split(listen)
    known = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"[{known}]:{port}" if ":" in known else f"{known}:{port}"
