"""Reaper: runs one command, and leaves none of its processes behind.

    python reaper.py --grace SECONDS -- COMMAND ARGUMENT…

Runs between the supervisor and a service. Its standard input is a pipe the supervisor holds
open: when that closes, however the supervisor ended, the reaper terminates the command and kills
all processes it leaves. The children of a service run in sessions of their own, so a group kill
would miss them; on Linux the reaper is therefore their subreaper and finds them by parentage. It
uses the standard library only and runs isolated, so it costs little.
"""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

SET_PARENT_DEATH_SIGNAL = 1
SET_CHILD_SUBREAPER = 36
COMMAND_NOT_FOUND = 127
KILL_SECONDS = 30.0
"""Killed processes end at once, but a busy machine may hold them up."""

SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Those that are handled; the command gets a SIGHUP, too."""
ON_LINUX = sys.platform.startswith("linux")


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code as a shell does, 128 + n for signal n."""
    grace, command = float(arguments[1]), arguments[3:]
    libc = ctypes.CDLL(None, use_errno=True) if ON_LINUX else None
    if libc is not None:
        libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signals = _signal_pipe()
    child = _spawn(command, libc)
    code = _wait(child, grace, signals)
    _kill_descendants(child)
    return code


def _signal_pipe() -> int:
    """A descriptor that becomes readable on each of the signals."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    return readable


def _spawn(command: list[str], libc: "ctypes.CDLL | None") -> int:
    reaper = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        if libc is not None:
            libc.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != reaper:  # it died before the request took effect
                os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(command[0], command)  # noqa: S606 # the supervisor's own command
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    os._exit(COMMAND_NOT_FOUND)


def _wait(child: int, grace: float, signals: int) -> int:
    """Waits for the child; stops it on a signal, or when the supervisor is gone."""
    deadline: float | None = None
    watched = [signals, 0]
    while True:
        code = _reap(child)
        if code is not None:
            return code
        left = None if deadline is None else max(0.0, deadline - monotonic())
        readable, _, _ = select.select(watched, [], [], left)
        received = set(os.read(signals, 1024)) if signals in readable else set()
        stop = not received.isdisjoint({signal.SIGTERM, signal.SIGINT})
        if signal.SIGHUP in received:
            os.kill(child, signal.SIGHUP)
        if 0 in readable and not os.read(0, 1024):  # the supervisor is gone
            watched.remove(0)
            stop = True
        if stop and deadline is None:
            deadline = monotonic() + grace
            os.kill(child, signal.SIGTERM)
        elif deadline is not None and monotonic() >= deadline:
            _kill_descendants(child)
            deadline = monotonic() + 0.1  # the kill may take a moment


def _reap(child: int) -> int | None:
    """Reaps all children that ended, adopted ones too; returns the code of `child` if it did."""
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == 0:
            return code
        if ended == child:
            value = os.waitstatus_to_exitcode(status)
            code = value if value >= 0 else 128 - value


def _kill_descendants(child: int) -> None:
    """Kills the command's process group and all descendants until none is left."""
    deadline = monotonic() + KILL_SECONDS
    _kill(-child)
    while left := list(_descendants(os.getpid())):
        for pid in left:
            _kill(pid)
            if pid != child:  # `_wait` reaps the child itself, for its exit code
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        if left == [child] or monotonic() > deadline:
            return
        sleep(0.01)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _descendants(ancestor: int) -> Iterator[int]:
    """Nearest generation first."""
    if not ON_LINUX:
        return
    parents = dict(_parents())
    generation = {ancestor}
    while generation := {pid for pid, parent in parents.items() if parent in generation}:
        yield from generation


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # The process name in brackets may itself hold brackets and blanks.
                after_name = (entry / "stat").read_text(errors="replace").rpartition(")")[2]
            except OSError:
                continue
            yield int(entry.name), int(after_name.split()[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
