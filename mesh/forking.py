"""Starts child processes quickly, from a fork server that has the slow libraries loaded."""

import atexit
import multiprocessing
import os
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from threading import Lock, Thread

REAPING_SECONDS = 1

Pipe = tuple[Connection, Connection]
"""Our end, and the child's end."""

_context = multiprocessing.get_context("forkserver")

_request_lock = Lock()
# Exiting in the middle of a request would make the fork server print a traceback.
atexit.register(_request_lock.acquire, timeout=REAPING_SECONDS)


def open_fork_server(preload: str) -> None:
    """Starts the fork server with this module loaded, before gRPC opens threads and sockets."""
    _context.set_forkserver_preload([preload])
    forkserver.ensure_running()


def two_way_pipe() -> Pipe:
    """A pipe that both ends may write to."""
    return _context.Pipe()


def one_way_pipe() -> Pipe:
    """A pipe that only the child writes to."""
    return _context.Pipe(duplex=False)


def fork(
    target: Callable[..., object], *arguments: object, pipes: Sequence[Pipe] = ()
) -> ForkServerProcess:
    """Starts a child that calls the target with the arguments and its end of each pipe."""
    ends = [child_end for _, child_end in pipes]
    process = _context.Process(target=target, args=(*arguments, *ends), daemon=True)
    try:
        with _request_lock:
            process.start()
    except BaseException:
        for our_end, _ in pipes:
            our_end.close()
        raise
    finally:
        # Our copies of the child's ends would hide that the child has closed its own.
        for end in ends:
            end.close()
    return process


def end_with_parent(pipe: int) -> None:
    """Makes this child lead a process group, killed once the parent has closed its end of the pipe.

    It dies at once, even inside native code.
    """
    os.setsid()
    Thread(target=_kill_group_once_closed, args=(pipe,), daemon=True).start()


def _kill_group_once_closed(pipe: int) -> None:
    other_end_gone = select.poll()
    other_end_gone.register(pipe, 0)
    other_end_gone.poll()
    os.killpg(0, signal.SIGKILL)


def kill(process: ForkServerProcess) -> None:
    """Kills the child and its process group, which it leads only a moment after its start."""
    assert process.pid is not None  # noqa: S101 - it was started
    for send in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            send(process.pid, signal.SIGKILL)


def reap(process: ForkServerProcess) -> None:
    """Waits for the child to exit, and releases it."""
    process.join(REAPING_SECONDS)
    with suppress(ValueError):  # not reaped yet
        process.close()
