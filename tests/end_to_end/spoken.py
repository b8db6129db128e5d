"""Helpers for tests of the whole mesh: normalized words, chunks, the command."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import COMMAND, RealMesh


def plain(text: str) -> str:
    """Lower-case words only, as Whisper's own scoring compares them."""
    kept = "".join(c.lower() if c.isalnum() or c.isspace() else " " for c in text)
    return " ".join(kept.split())


def chunks_of(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[begin : begin + 65_536] for begin in range(0, len(data), 65_536)]


def run(
    *arguments: str, mesh: RealMesh | None = None, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs the command to its end: on that mesh, or with these variables besides ours."""
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=280,
        env={**os.environ, **(mesh.variables() if mesh else {}), **(env or {})},
    )  # fmt: skip
