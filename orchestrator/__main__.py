"""Runs the orchestrator: `python -m orchestrator`."""

import gc

from mesh.service import run_process, serve
from orchestrator.settings import Settings
from orchestrator.wiring import assembled


async def main(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT."""
    async with assembled(settings) as (services, get_ready):
        await serve(settings, services, get_ready, reflects=settings.reflection)


if __name__ == "__main__":
    # A thousand watchers are many live objects without cycles: frequent collections delay events
    # (63 to 53 µs a message in one run of each).
    gc.set_threshold(50_000, 20, 100)
    run_process("orchestrator", Settings, main)
