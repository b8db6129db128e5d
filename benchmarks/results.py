"""Where benchmarks leave what they measured, with the machine they measured it on."""

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import psutil


def write_json(name: str, measured: Mapping[str, object], folder: Path) -> Path:
    """A file named after the benchmark and the moment."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    path = folder / f"{name}-{now:%Y%m%dT%H%M%SZ}.json"
    whole = {"measured_at": now.isoformat(), "machine": _machine(), **measured}
    text = json.dumps(whole, indent=2, default=str, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _machine() -> dict[str, object]:
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": os.getloadavg(),
    }
