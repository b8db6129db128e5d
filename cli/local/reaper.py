"""Runs one command and sees to it that nothing of it outlives us.

    python leash.py --grace SECONDS -- COMMAND ARGUMENT…

Stands between the supervisor and a service. Its standard input is a pipe the supervisor holds
open: when it closes, however the supervisor ended, the command is stopped the orderly way and
whatever it left behind is killed. A service's own children live in sessions of their own, so a
group kill would miss them; on Linux a leash is therefore their subreaper, and finds them by
parentage. Uses the standard library only and runs isolated, so it costs little.
"""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

SET_PARENT_DEATH_SIGNAL = 1
SET_CHILD_SUBREAPER = 36
NOT_FOUND = 127
KILL_SECONDS = 5.0

ON_LINUX = sys.platform.startswith("linux")


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code, as a shell would give it."""
    grace, command = float(arguments[1]), arguments[3:]
    libc = ctypes.CDLL(None, use_errno=True) if ON_LINUX else None
    if libc is not None:
        libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken = _listen_for_signals()
    child = _spawn(command, libc)
    code = _until_it_ends(child, grace, woken)
    _kill_what_is_left(child)
    return code


def _listen_for_signals() -> int:
    """A descriptor that becomes readable when a child ended or we are told to stop."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return readable


def _spawn(command: list[str], libc: "ctypes.CDLL | None") -> int:
    leash = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        if libc is not None:
            libc.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != leash:  # it died before we asked to be told
                os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.execvp(command[0], command)  # noqa: S606 # the supervisor's own command
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    os._exit(NOT_FOUND)


def _until_it_ends(child: int, grace: float, woken: int) -> int:
    deadline: float | None = None
    watched = [woken, 0]
    while True:
        code = _reap(child)
        if code is not None:
            return code
        left = None if deadline is None else max(0.0, deadline - monotonic())
        readable, _, _ = select.select(watched, [], [], left)
        told = woken in readable and _was_told_to_stop(woken)
        if 0 in readable and not os.read(0, 1024):  # the supervisor is gone
            watched.remove(0)
            told = True
        if told and deadline is None:
            deadline = monotonic() + grace
            os.kill(child, signal.SIGTERM)
        elif deadline is not None and monotonic() >= deadline:
            _kill_what_is_left(child)
            deadline = monotonic() + 0.1  # if even that takes a moment


def _was_told_to_stop(woken: int) -> bool:
    return bool({signal.SIGTERM, signal.SIGINT} & set(os.read(woken, 1024)))


def _reap(child: int) -> int | None:
    """Collects every child that ended, adopted ones too; the code of ours if it is among them."""
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


def _kill_what_is_left(child: int) -> None:
    """Kills the command's group and all our descendants until there are none."""
    deadline = monotonic() + KILL_SECONDS
    _kill(-child)
    while left := list(_descendants(os.getpid())):
        for pid in left:
            _kill(pid)
        # Ours is collected where its exit code is wanted.
        if left == [child] or monotonic() > deadline:
            return
        _reap_others(child)
        sleep(0.01)


def _reap_others(child: int) -> None:
    for pid in _descendants(os.getpid()):
        if pid != child:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _descendants(ancestor: int) -> Iterator[int]:
    """Nearest first."""
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
                # The name in brackets may itself hold brackets and blanks.
                after_name = (entry / "stat").read_text(errors="replace").rpartition(")")[2]
            except OSError:
                continue
            yield int(entry.name), int(after_name.split()[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
