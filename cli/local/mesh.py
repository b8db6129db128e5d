"""The whole mesh on this machine: which processes, with which settings."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cli.channel import answers_http, is_serving, model_preparation
from cli.processes import ChildSpec
from cli.text import for_terminal
from mesh import broker
from mesh.addresses import split
from mesh.preparation import in_words

STAGES = ("downloader", "normalizer", "transcriber")
SERVICES = ("orchestrator", *STAGES)
# Weights may have to come from the hub first.
MODEL_SECONDS = 1800
LEAST_STORAGE_BYTES = 64 * 1024**2
MOST_STORAGE_BYTES = 16 * 1024**3


@dataclass(frozen=True, slots=True)
class MeshPlan:
    """Where everything listens and keeps its data."""

    listen: Mapping[str, str]
    """host:port of every service."""

    metrics: Mapping[str, str]
    """host:port of every service's metrics; who is missing serves none."""

    nats_port: int
    data_dir: Path
    """What has to outlive the processes."""

    work_dir: Path
    """What need not."""

    grace_seconds: float
    allow_private_addresses: bool = False
    http: str = ""
    """host:port of the gateway; empty: none."""


def phases(plan: MeshPlan) -> list[list[ChildSpec]]:
    """The broker, the stages, the orchestrator that leans on them, and who leans on that."""
    configuration = broker.write_configuration(plan.data_dir, plan.nats_port)
    nats = ChildSpec("nats", broker.command(configuration), partial(broker.answers, plan.nats_port))
    stages = [_service(name, plan, _stage_settings(name, plan)) for name in STAGES]
    orchestrator = _service("orchestrator", plan, _orchestrator_settings(plan))
    gateway = [[_gateway(plan)]] if plan.http else []
    return [[nats], stages, [orchestrator], *gateway]


def _service(name: str, plan: MeshPlan, settings: Mapping[str, str]) -> ChildSpec:
    hears = name == "transcriber"
    common = {
        "LISTEN": plan.listen[name],
        "METRICS_LISTEN": plan.metrics.get(name, ""),
        "WORK_DIR": str(plan.work_dir / name),
        # The leash makes them end soon after.
        "GRACE_SECONDS": str(plan.grace_seconds / 2),
    }
    return ChildSpec(
        name,
        # -P: a folder called like a service, where the user happens to be, is not it.
        (sys.executable, "-P", "-m", name),
        partial(_is_ready, reachable(plan.listen[name])),
        {f"{name.upper()}_{key}": value for key, value in {**common, **settings}.items()},
        doing=partial(_what_keeps_the_model, reachable(plan.listen[name])) if hears else None,
        start_seconds=MODEL_SECONDS if hears else 60,
    )


def _gateway(plan: MeshPlan) -> ChildSpec:
    return ChildSpec(
        "gateway",
        (sys.executable, "-P", "-m", "gateway"),
        partial(answers_http, reachable(plan.http)),
        {
            "GATEWAY_LISTEN": plan.http,
            "GATEWAY_METRICS_LISTEN": plan.metrics.get("gateway", ""),
            "GATEWAY_ORCHESTRATOR": reachable(plan.listen["orchestrator"]),
            "GATEWAY_GRACE_SECONDS": str(plan.grace_seconds / 2),
        },
    )


def _stage_settings(name: str, plan: MeshPlan) -> dict[str, str]:
    if name == "downloader" and plan.allow_private_addresses:
        return {"ALLOW_PRIVATE_ADDRESSES": "true"}
    return {}


def _orchestrator_settings(plan: MeshPlan) -> dict[str, str]:
    stages = {name.upper(): reachable(plan.listen[name]) for name in STAGES}
    # The user's own wish wins, as with every setting we do not have to know.
    chosen = "ORCHESTRATOR_STORAGE_BYTES" in os.environ
    storage = {} if chosen else {"STORAGE_BYTES": str(storage_bytes(plan.data_dir))}
    return {"NATS_URL": broker.url_of(plan.nats_port), **stages, **storage}


def storage_bytes(data_dir: Path) -> int:
    """How much of this disk the broker sets aside.

    Decided once for each data directory: stores keep the size they were made with.
    """
    note = data_dir / "storage-bytes"
    try:
        return int(note.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        half = shutil.disk_usage(data_dir).free // 2
        found = max(LEAST_STORAGE_BYTES, min(MOST_STORAGE_BYTES, half))
        note.write_text(str(found), encoding="ascii")
        return found


async def _is_ready(address: str) -> bool:
    return bool(await is_serving(address))


async def _what_keeps_the_model(address: str) -> str:
    preparing = await model_preparation(address)
    return for_terminal(in_words(preparing)) if preparing else ""


def reachable(listen: str) -> str:
    """The address to call for an address to listen on: nobody can call "any"."""
    host, port = split(listen)
    known = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"[{known}]:{port}" if ":" in known else f"{known}:{port}"
