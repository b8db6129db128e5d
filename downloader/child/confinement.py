"""Confines the child process with a Python audit hook: network, files, programs, environment.

Python reports each action to the hook before it happens, and the hook may refuse it. Unlike a
patched function, an audit hook can be neither bypassed by Python code nor removed.
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from downloader.child.guard import Guard

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
START_EVENTS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn")

ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""The only variables third-party code gets to see."""

Check = Callable[..., None]


class ForbiddenActionError(PermissionError):
    """Code in the child tried to start a program, or to write outside its folder."""


def confine(folder: str, guard: Guard | None, programs: dict[str, Check]) -> None:
    """From now on the process reaches only addresses the guard allows, writes only below the
    folder, and starts only these programs, each with arguments its check accepts."""
    sys.dont_write_bytecode = True
    _clear_environment(folder)
    checks: dict[str, Check] = {
        "open": _only_below(folder),
        "subprocess.Popen": _only(programs),
        **dict.fromkeys(START_EVENTS, _refuse),
    }
    if guard is not None:
        for event in ("socket.connect", "socket.sendto"):
            checks[event] = lambda _, address: guard.check(address)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if check := checks.get(event):
            check(*arguments)

    sys.addaudithook(watch)


def check_deno_arguments(arguments: list[str]) -> None:
    """Allows deno without permissions only: it can compute, but reach no file and no network."""
    mode, *options = arguments or [""]
    asks_for_more = any(re.match(r"--allow|--unstable|--env|-[A-Z]", each) for each in options)
    if mode not in ("run", "--version") or asks_for_more:
        raise ForbiddenActionError("deno scripts run without permissions")


def _clear_environment(folder: str) -> None:
    for name in set(os.environ) - set(ENVIRONMENT):
        del os.environ[name]
    os.environ.update(TMPDIR=folder, DENO_DIR=f"{folder}/deno", DENO_NO_UPDATE_CHECK="1")


def _only_below(folder: str) -> Check:
    root = Path(folder).resolve()

    def check(path: Any, _: Any, flags: Any) -> None:
        if isinstance(path, int) or not (flags or 0) & WRITE_FLAGS or path == os.devnull:
            return
        if root not in Path(os.fsdecode(path)).resolve().parents:
            raise ForbiddenActionError("a child writes only to its own folder")

    return check


def _only(programs: dict[str, Check]) -> Check:
    def check(_: Any, arguments: Any, *__: Any) -> None:
        words = (
            [] if isinstance(arguments, str | bytes) else [os.fsdecode(each) for each in arguments]
        )
        allowed = programs.get(words[0]) if words else None
        if allowed is None:
            _refuse()
        else:
            allowed(words[1:])

    return check


def _refuse(*_: Any) -> None:
    raise ForbiddenActionError("a child starts only deno and ffmpeg")
