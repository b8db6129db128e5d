"""What a child may do besides computing. Python reports each deed before it is done; we may refuse.

Unlike a patched function, an audit hook cannot be gone around by code in Python, nor be removed.
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from downloader.guard import Guard

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
STARTING = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn")

ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""All that strangers' code may know of ours."""

Check = Callable[..., None]


class ForbiddenDeedError(PermissionError):
    """Somebody tried to start a program, or to write where we do not write."""


def confine(folder: str, guard: Guard | None, programs: dict[str, Check]) -> None:
    """From here on: addresses the guard knows, files below the folder, these programs."""
    sys.dont_write_bytecode = True
    _forget_environment(folder)
    checks: dict[str, Check] = {
        "open": _only_below(folder),
        "subprocess.Popen": _only(programs),
        **dict.fromkeys(STARTING, _refuse),
    }
    if guard is not None:
        checks |= dict.fromkeys(("socket.connect", "socket.sendto"), _public(guard))

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if check := checks.get(event):
            check(*arguments)

    sys.addaudithook(watch)


def caged_deno(arguments: list[str]) -> None:
    """deno without permissions computes, and can do nothing else."""
    mode, *options = arguments or [""]
    asks_for_more = any(re.match(r"--allow|--unstable|--env|-[A-Z]", each) for each in options)
    if mode not in ("run", "--version") or asks_for_more:
        raise ForbiddenDeedError("a script gets no permissions")


def _forget_environment(folder: str) -> None:
    for name in set(os.environ) - set(ENVIRONMENT):
        del os.environ[name]
    os.environ.update(TMPDIR=folder, DENO_DIR=f"{folder}/deno", DENO_NO_UPDATE_CHECK="1")


def _public(guard: Guard) -> Check:
    def check(_: Any, address: Any) -> None:
        guard.check(address)

    return check


def _only_below(folder: str) -> Check:
    root = Path(folder).resolve()

    def check(path: Any, _: Any, flags: Any) -> None:
        if isinstance(path, int) or not (flags or 0) & WRITING or path == os.devnull:
            return
        if root not in Path(os.fsdecode(path)).resolve().parents:
            raise ForbiddenDeedError("a child writes to its own folder only")

    return check


def _only(programs: dict[str, Check]) -> Check:
    def check(_: Any, arguments: Any, *__: Any) -> None:
        words = (
            [] if isinstance(arguments, str | bytes) else [os.fsdecode(each) for each in arguments]
        )
        allowed = programs.get(words[0]) if words else None
        if allowed is None:
            raise ForbiddenDeedError("a child starts no program but its own")
        allowed(words[1:])

    return check


def _refuse(*_: Any) -> None:
    raise ForbiddenDeedError("a child starts no program but its own")
