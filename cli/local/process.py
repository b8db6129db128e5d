"""One supervised process: run by a reaper, with a log file and a readiness check."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from cli.local import reaper
from mesh.errors import TimedOutError, UnavailableError
from mesh.reasons import Reason

MAX_LOG_BYTES = 10_000_000
TAIL_LINES = 8
POLL_SECONDS = 0.05
ACTIVITY_SECONDS = 0.25
# What the reaper may take beyond the grace to kill descendants.
REAPER_SECONDS = reaper.KILL_SECONDS + 2


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A command to run, and its readiness check."""

    name: str
    command: Sequence[str]
    is_ready: Callable[[], Awaitable[bool | None]]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of this process."""

    activity: Callable[[], Awaitable[str]] | None = None
    """Called while it is not ready: what it is doing, for people; "" if unknown."""

    start_seconds: float = 60
    """Time limit to become ready."""


class ManagedProcess:
    """A process with all its descendants: none outlives it."""

    def __init__(self, spec: ProcessSpec, log_dir: Path, grace_seconds: float) -> None:
        self.spec = spec
        self.log_path = log_dir / f"{spec.name}.log"
        self._grace = grace_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._log_start = 0

    async def start(self) -> None:
        """Starts the process; its output is appended to the log."""
        with self._open_log() as log_file:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", reaper.__file__),
                *("--grace", str(self._grace), "--", *self.spec.command),
                stdin=asyncio.subprocess.PIPE,
                stdout=log_file,
                stderr=log_file,
                env={**os.environ, **self.spec.environment},
                start_new_session=True,
            )

    def _open_log(self) -> BinaryIO:
        if self.log_path.exists() and self.log_path.stat().st_size > MAX_LOG_BYTES:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        log_file = self.log_path.open("ab")
        self._log_start = log_file.tell()
        return log_file

    async def until_ready(self, on_activity: Callable[[str], None] = lambda _: None) -> None:
        """Returns once the process is ready; raises with the end of its log if it exits first.

        Calls `on_activity` now and then meanwhile.
        """
        deadline = monotonic() + self.spec.start_seconds
        next_activity = monotonic()
        while monotonic() < deadline:
            if self.exit_code is not None:
                raise UnavailableError(
                    f"{self.spec.name} ended with code {self.exit_code} before it was ready"
                    f"{self._quote()}",
                    reason=Reason.STAGE_UNAVAILABLE,
                )
            if await self.spec.is_ready():
                return
            if self.spec.activity and monotonic() >= next_activity:
                on_activity(await self.spec.activity())
                next_activity = monotonic() + ACTIVITY_SECONDS
            await asyncio.sleep(POLL_SECONDS)
        raise TimedOutError(
            f"{self.spec.name} was not ready after {self.spec.start_seconds:.0f} seconds"
            f"{self._quote()}",
            reason=Reason.DEADLINE,
        )

    def _quote(self) -> str:
        lines = self.log_tail()
        return "\n".join(["\nend of its log:", *lines]) if lines else ""

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before it is started."""
        return None if self._process is None else self._process.returncode

    async def until_ended(self) -> int:
        """Returns the exit code, once the process and its descendants are gone."""
        assert self._process is not None, "not started"  # noqa: S101
        return await self._process.wait()

    async def stop(self) -> None:
        """Terminates, then kills the process; returns when its descendants are gone."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self._grace + REAPER_SECONDS):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def log_tail(self) -> list[str]:
        """The last lines it has logged since its last start."""
        try:
            with self.log_path.open("rb") as log_file:
                size = log_file.seek(0, os.SEEK_END)
                log_file.seek(max(self._log_start, size - 8_192))
                text = log_file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return text.splitlines()[-TAIL_LINES:]
