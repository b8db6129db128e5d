"""Keeps a set of child processes running, and leaves none behind."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol

from cli.processes import Child, ChildSpec
from mesh.errors import MeshError

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 10.0
"""Who ran this long after it was ready was not killed by its own start."""


class Narrator(Protocol):
    """Tells a person what goes on."""

    def line(self, text: str) -> None:
        """Something worth remembering."""

    def status(self, text: str) -> None:
        """What is under way right now; "" if nothing is."""


@asynccontextmanager
async def supervised(
    phases: Sequence[Sequence[ChildSpec]],
    log_dir: Path,
    *,
    grace_seconds: float,
    narrator: Narrator,
) -> AsyncIterator[None]:
    """Runs everybody until the block ends.

    The first phase is ready before the others start; stopping goes backwards, phase by phase.
    """
    groups = [[Child(spec, log_dir, grace_seconds) for spec in phase] for phase in phases]
    everybody = [child for group in groups for child in group]
    starting = _Starting(everybody, narrator)
    keepers: list[asyncio.Task[None]] = []
    try:
        await starting.bring_up(groups[0])
        await starting.bring_up([child for group in groups[1:] for child in group])
        narrator.status("")
        keepers = [asyncio.ensure_future(_keep_running(child, narrator)) for child in everybody]
        yield
    finally:
        narrator.status("")
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        for group in reversed(groups):
            await asyncio.gather(*(child.stop() for child in group))


class _Starting:
    """The first start of everybody, told as one line that grows."""

    def __init__(self, everybody: Sequence[Child], narrator: Narrator) -> None:
        self._everybody = everybody
        self._narrator = narrator
        self._ready: set[str] = set()
        self._doing: dict[str, str] = {}

    async def bring_up(self, children: Sequence[Child]) -> None:
        """Starts them together; the first to fail is the one to hear about."""
        self._tell()
        try:
            async with asyncio.TaskGroup() as tasks:
                for child in children:
                    tasks.create_task(self._bring_up(child))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _bring_up(self, child: Child) -> None:
        await child.start()
        await child.until_ready(partial(self._note, child.spec.name))
        self._ready.add(child.spec.name)
        self._tell()

    def _note(self, name: str, doing: str) -> None:
        self._doing[name] = doing
        self._tell()

    def _tell(self) -> None:
        words = [self._word(child.spec) for child in self._everybody]
        self._narrator.status("starting " + ", ".join(words))

    def _word(self, spec: ChildSpec) -> str:
        if spec.name in self._ready:
            return f"{spec.name} ready"
        doing = self._doing.get(spec.name)
        return f"{spec.name} ({doing}) …" if doing else f"{spec.name} …"


async def _keep_running(child: Child, narrator: Narrator) -> None:
    name = child.spec.name
    pause = FIRST_PAUSE_SECONDS
    while True:
        began = monotonic()
        code = await child.until_ended()
        if monotonic() - began > STEADY_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        narrator.line(
            f"{name} ended with code {code}; starting it again in {pause:g} s ({child.log_path})"
        )
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        await child.start()
        try:
            await child.until_ready()
        except MeshError:
            # It may hang rather than have ended.
            await child.stop()
        else:
            narrator.line(f"{name} is back")
