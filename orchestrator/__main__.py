"""Runs the orchestrator: `python -m orchestrator`."""

import gc
import os

from structlog import get_logger

from mesh.old_names import meaningless
from mesh.service import run_process, serve
from orchestrator.settings import Settings
from orchestrator.wiring import assembled

log = get_logger(__name__)


async def main(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT."""
    # The orchestrator alone, so that a mesh says it once.
    for name, why in meaningless(os.environ):
        log.warning("variable of the earlier system has no meaning here", variable=name, why=why)
    async with assembled(settings) as (services, get_ready):
        await serve(settings, services, get_ready, reflects=settings.reflection)


if __name__ == "__main__":
    # A thousand watchers are many live objects without cycles: frequent collections delay events
    # (63 to 53 µs a message in one run of each).
    gc.set_threshold(50_000, 20, 100)
    run_process("orchestrator", Settings, main)
