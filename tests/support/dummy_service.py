"""A dummy service process: real settings and health check, the fake orchestrator behind it.

Tests put packages with the services' names first on the path; each of them only calls `main`.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pydantic_settings import SettingsConfigDict

from cli.local.mesh import SERVICES
from mesh.service import run_process, serve
from mesh.settings import ServiceSettings
from tests.support.fake_orchestrator import FakePipeline, services
from tests.support.job_updates import EVENT_LOG


def install(directory: Path) -> str:
    """Writes the packages; returns the directory to put first on the path."""
    for name in SERVICES:
        package = directory / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        text = f"from tests.support.dummy_service import main\nmain({name!r})\n"
        (package / "__main__.py").write_text(text)
    return str(directory)


def main(name: str) -> None:
    """Runs the service; DUMMY_<NAME> in the environment names a fault to have."""
    prefix = f"{name.upper()}_"

    class Settings(ServiceSettings):
        model_config = SettingsConfigDict(env_prefix=prefix, extra="ignore", frozen=True)

    fault = os.environ.get(f"DUMMY_{name.upper()}", "")
    if fault == "broken":
        sys.stderr.write("starting\nno module named warp_drive\n")
        sys.exit(3)
    if fault == "messy":
        # A child in its own session, and one that ignores SIGTERM.
        subprocess.Popen(["sleep", "600"], start_new_session=True)  # noqa: S607
        stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True)
    _note_settings(name)
    run_process(name, Settings, lambda settings: _serve(settings, name, fault))


def _note_settings(name: str) -> None:
    if directory := os.environ.get("DUMMY_NOTES"):
        mine = [item for item in os.environ.items() if item[0].startswith(f"{name.upper()}_")]
        text = "\n".join(f"{key}={value}" for key, value in mine)
        (Path(directory) / name).write_text(text)


async def _serve(settings: ServiceSettings, name: str, fault: str) -> None:
    pipeline = FakePipeline()
    if os.environ.get("DUMMY_ENDLESS"):
        pipeline.event_log = EVENT_LOG[:2]
        pipeline.stays_open = True
    parts: list[Any] = []
    if name == "orchestrator":
        parts = services(pipeline)

    async def get_ready() -> None:
        if fault == "slow":
            await asyncio.Event().wait()

    serving = asyncio.ensure_future(serve(settings, parts, get_ready))
    if fault == "stubborn":
        await asyncio.sleep(0)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    await serving
