"""Supervisor: starts processes in phases, restarts those that exit, leaves none behind."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol

from cli.local.process import ManagedProcess, ProcessSpec
from mesh.errors import MeshError

FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30.0
STEADY_SECONDS = 10.0
"""A process that ran this long did not exit because of its start: the backoff is reset."""


class StatusDisplay(Protocol):
    """Shows a person what the supervisor does."""

    def line(self, text: str) -> None:
        """Writes a line that stays."""

    def status(self, text: str) -> None:
        """Replaces the status line; "" removes it."""


@asynccontextmanager
async def supervised(
    phases: Sequence[Sequence[ProcessSpec]],
    log_dir: Path,
    *,
    grace_seconds: float,
    display: StatusDisplay,
) -> AsyncIterator[None]:
    """Runs all processes until the block ends.

    The first phase is ready before the others start; phases stop in reverse order.
    """
    groups = [[ManagedProcess(spec, log_dir, grace_seconds) for spec in phase] for phase in phases]
    processes = [process for group in groups for process in group]
    startup = _Startup(processes, display)
    restarts: list[asyncio.Task[None]] = []
    try:
        await startup.start(groups[0])
        await startup.start([process for group in groups[1:] for process in group])
        display.status("")
        restarts = [asyncio.ensure_future(_keep_running(one, display)) for one in processes]
        yield
    finally:
        display.status("")
        for restart in restarts:
            restart.cancel()
        await asyncio.gather(*restarts, return_exceptions=True)
        for group in reversed(groups):
            await asyncio.gather(*(process.stop() for process in group))


class _Startup:
    """The first start of all processes, shown as one status line."""

    def __init__(self, processes: Sequence[ManagedProcess], display: StatusDisplay) -> None:
        self._display = display
        self._states = {process.spec.name: "…" for process in processes}

    async def start(self, processes: Sequence[ManagedProcess]) -> None:
        """Starts them together; raises the first failure."""
        self._show()
        try:
            async with asyncio.TaskGroup() as tasks:
                for process in processes:
                    tasks.create_task(self._start(process))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _start(self, process: ManagedProcess) -> None:
        await process.start()
        await process.until_ready(partial(self._note_activity, process.spec.name))
        self._states[process.spec.name] = "ready"
        self._show()

    def _note_activity(self, name: str, activity: str) -> None:
        self._states[name] = f"({activity}) …" if activity else "…"
        self._show()

    def _show(self) -> None:
        states = ", ".join(f"{name} {state}" for name, state in self._states.items())
        self._display.status(f"starting {states}")


async def _keep_running(process: ManagedProcess, display: StatusDisplay) -> None:
    name = process.spec.name
    backoff = FIRST_BACKOFF_SECONDS
    while True:
        began = monotonic()
        code = await process.until_ended()
        if monotonic() - began > STEADY_SECONDS:
            backoff = FIRST_BACKOFF_SECONDS
        display.line(
            f"{name} ended with code {code}; "
            f"starting it again in {backoff:g} s ({process.log_path})"
        )
        await asyncio.sleep(backoff)
        backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
        await process.start()
        try:
            await process.until_ready()
        except MeshError:
            # It may hang instead of having exited.
            await process.stop()
        else:
            display.line(f"{name} is back")
