"""Processes that may end at any moment, and those that must."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
import pytest

from tests.support.polling import until

Newborn = Callable[[], list[psutil.Process]]


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def command_line(process: psutil.Process) -> list[str]:
    """Its command line; empty if it has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a zombie counts too
        return []


async def stop_process(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Asks one of our own children to end; kills it if it still runs after this many seconds."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def kill(pid: int) -> None:
    """Kills one of our own children; returns when it is gone, with its ports and locks."""
    os.kill(pid, signal.SIGKILL)
    # A zombie is not enough: other threads of it may still hold a socket.
    await until(lambda: not psutil.pid_exists(pid), 60)


def dies_at(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, call: int) -> list[str]:
    """What that call would have done does not happen, nor anything after it."""
    real, calls, deaths = getattr(kind, name), [0], []

    async def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            deaths.append(name)
            raise RuntimeError("killed")
        return await real(self, *arguments, **named)

    monkeypatch.setattr(kind, name, dying)
    return deaths
