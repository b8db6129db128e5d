"""Programs of strangers: they import the generated contract, grpcio and protobuf, and no more."""

import asyncio
import os
import sys
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.processes import stop_process

ROOT = Path(__file__).parents[2]
START_SECONDS = 120
ALLOWED = ("grpc", "google", "typing_extensions.py")
"""What `pip install grpcio protobuf` brings."""


def stranger_environment(folder: Path) -> dict[str, str]:
    """Variables for an interpreter that finds only what a stranger needs; run it with -S."""
    packages = folder / "packages"
    packages.mkdir()
    installed = Path(sysconfig.get_path("platlib"))
    for name in ALLOWED:
        (packages / name).symlink_to(installed / name)
    (packages / "ytcaption").symlink_to(ROOT / "gen" / "ytcaption")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}


@asynccontextmanager
async def serving_program(
    environment: dict[str, str], *command: str, folder: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that says `serving …` once it listens."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-S", *command),
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
        assert line.startswith(b"serving "), line
        yield process
    finally:
        await stop_process(process, 60)
