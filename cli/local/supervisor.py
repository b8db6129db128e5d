"""Supervisor: starts processes in phases, restarts those that exit, leaves none behind."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import BinaryIO, Protocol

from cli.local import reaper
from mesh.errors import MeshError, TimedOutError, UnavailableError
from mesh.reasons import Reason

MAX_LOG_BYTES = 10_000_000
TAIL_LINES = 8
POLL_SECONDS = 0.05
ACTIVITY_SECONDS = 0.25
# What the reaper may take beyond the grace to kill descendants.
REAPER_SECONDS = reaper.KILL_SECONDS + 2
FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30.0
FILES_SECONDS = 5.0
"""How often logs and replaced files are looked at."""
STEADY_SECONDS = 10.0
"""A process that ran this long did not exit because of its start: the backoff is reset."""


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

    renewed: Callable[[], bool] | None = None
    """Whether files have changed that it reads again on SIGHUP; None: it reads none so."""


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

    def read_again(self) -> None:
        """Sends SIGHUP if files have changed that the process reads again then."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        if self.spec.renewed is not None and self.spec.renewed():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGHUP)

    def rotate_log(self) -> None:
        """Moves a log that has grown too long aside; works while the process writes to it.

        The process keeps its file, so that is copied and emptied; it appends, and goes on at the
        beginning.
        """
        with suppress(FileNotFoundError):
            if self.log_path.stat().st_size > MAX_LOG_BYTES:
                shutil.copyfile(self.log_path, self.log_path.with_suffix(".log.1"))
                os.truncate(self.log_path, 0)
                self._log_start = 0

    def _open_log(self) -> BinaryIO:
        self.rotate_log()
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
    tasks: list[asyncio.Task[None]] = []
    try:
        await startup.start(groups[0])
        await startup.start([process for group in groups[1:] for process in group])
        display.status("")
        tasks = [asyncio.ensure_future(_keep_running(one, display)) for one in processes]
        tasks.append(asyncio.ensure_future(_look_after_files(processes)))
        yield
    finally:
        display.status("")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
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


async def _look_after_files(processes: Sequence[ManagedProcess]) -> None:
    while True:
        await asyncio.sleep(FILES_SECONDS)
        for process in processes:
            process.read_again()
            with suppress(OSError):  # a full disk: the log stays as it is
                await asyncio.to_thread(process.rotate_log)


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
