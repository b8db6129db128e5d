"""Children that are had at once: forked from a process that has the slow libraries loaded."""

import atexit
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from threading import Lock

REAPING_SECONDS = 1

Pipe = tuple[Connection, Connection]
"""Our end, and the child's."""

_context = multiprocessing.get_context("forkserver")

_turn = Lock()
# Whoever ends in the middle of a request makes the fork server complain, with a traceback.
atexit.register(_turn.acquire, timeout=REAPING_SECONDS)


def open_fork_server(preload: str) -> None:
    """Starts it with this module loaded. Early: before gRPC has threads and sockets."""
    _context.set_forkserver_preload([preload])
    forkserver.ensure_running()


def two_way_pipe() -> Pipe:
    """Both may speak."""
    return _context.Pipe()


def one_way_pipe() -> Pipe:
    """Only the child may speak."""
    return _context.Pipe(duplex=False)


def fork(
    target: Callable[..., None], *arguments: object, pipes: Sequence[Pipe] = ()
) -> ForkServerProcess:
    """A child that calls the target with the arguments and then its end of each pipe."""
    ends = [theirs for _, theirs in pipes]
    process = _context.Process(target=target, args=(*arguments, *ends), daemon=True)
    try:
        with _turn:
            process.start()
    except BaseException:
        for ours, _ in pipes:
            ours.close()
        raise
    finally:
        # What we keep of theirs must go, or we would never see that the child has gone.
        for end in ends:
            end.close()
    return process


def kill(process: ForkServerProcess) -> None:
    """Ends it and all in its group: it leads one, but not yet in its very first moments."""
    assert process.pid is not None  # noqa: S101 - it was started
    for send in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            send(process.pid, signal.SIGKILL)


def reap(process: ForkServerProcess) -> None:
    """Waits until it is gone, and forgets it."""
    process.join(REAPING_SECONDS)
    with suppress(ValueError):  # still dying, in the hands of the kernel
        process.close()
