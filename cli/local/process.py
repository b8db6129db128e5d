"""One child process of the supervisor: on a leash, with a log file, asked whether it is ready."""

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

from cli import leash
from mesh.errors import TimedOutError, UnavailableError
from mesh.reasons import Reason

MAX_LOG_BYTES = 10_000_000
TAIL_LINES = 8
POLL_SECONDS = 0.05
WORD_SECONDS = 0.25
# What the leash may take beyond the grace to kill what is left.
LEASH_SECONDS = leash.KILL_SECONDS + 2


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run, and how to know that it works."""

    name: str
    command: Sequence[str]
    is_ready: Callable[[], Awaitable[bool]]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to ours."""

    doing: Callable[[], Awaitable[str]] | None = None
    """Asked while it is not ready: what keeps it, for people; "" if it does not say."""

    start_seconds: float = 60
    """How long it may take to become ready."""


class Child:
    """A process and all it starts; either everything runs or nothing does."""

    def __init__(self, spec: ChildSpec, log_dir: Path, grace_seconds: float) -> None:
        self.spec = spec
        self.log_path = log_dir / f"{spec.name}.log"
        self._grace = grace_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._said_before = 0

    async def start(self) -> None:
        """Starts it; its output is added to the log."""
        with self._open_log() as log_file:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", leash.__file__),
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
        self._said_before = log_file.tell()
        return log_file

    async def until_ready(self, on_word: Callable[[str], None] = lambda _: None) -> None:
        """Returns once it works; raises with its own last words if it ended instead.

        What it is doing meanwhile is told now and then.
        """
        deadline = monotonic() + self.spec.start_seconds
        next_word = monotonic()
        while monotonic() < deadline:
            if self.exit_code is not None:
                raise UnavailableError(
                    f"{self.spec.name} ended with code {self.exit_code} before it was ready"
                    f"{self._quote()}",
                    reason=Reason.STAGE_UNAVAILABLE,
                )
            if await self.spec.is_ready():
                return
            if self.spec.doing and monotonic() >= next_word:
                on_word(await self.spec.doing())
                next_word = monotonic() + WORD_SECONDS
            await asyncio.sleep(POLL_SECONDS)
        raise TimedOutError(
            f"{self.spec.name} was not ready after {self.spec.start_seconds:.0f} seconds"
            f"{self._quote()}",
            reason=Reason.DEADLINE,
        )

    def _quote(self) -> str:
        lines = self.last_words()
        return "\n".join(["\nits last words:", *lines]) if lines else ""

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or if it never did."""
        return None if self._process is None else self._process.returncode

    async def until_ended(self) -> int:
        """Its exit code, once it and all it had started are gone."""
        assert self._process is not None, "not started"  # noqa: S101
        return await self._process.wait()

    async def stop(self) -> None:
        """Asks it to stop, then makes it; returns when nothing of it is left."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self._grace + LEASH_SECONDS):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def last_words(self) -> list[str]:
        """The end of what it wrote since it was last started."""
        try:
            with self.log_path.open("rb") as log_file:
                size = log_file.seek(0, os.SEEK_END)
                log_file.seek(max(self._said_before, size - 8_192))
                text = log_file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return text.splitlines()[-TAIL_LINES:]
