"""Starts model processes from a fork server that has the libraries loaded, and calls them."""

import os
from collections.abc import Callable
from typing import Any

from mesh.errors import InternalError, MeshError, UnavailableError
from mesh.forking import fork, kill, open_fork_server, reap, two_way_pipe
from mesh.reasons import Reason
from transcriber.model.child import Command, Failed, main

PRELOAD = "transcriber.model.preload"
REQUIRED = {"OPENBLAS_NUM_THREADS": "1"}
"""NumPy's OpenBLAS starts its threads when it is imported, and a process that forks must have none.
The thread count also changes how features round, and with that a segment's end."""

DEFAULTS = {
    "MKL_CBWR": "AUTO",
    "MKL_DISABLE_FAST_MM": "1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
}
"""Environment of the model processes; a variable the operator sets wins. CTranslate2 computes with
MKL on Intel and with oneDNN on AMD.

MKL_CBWR=AUTO: the same samples give the same result in every process, wherever its buffers lie, at
no cost. AVX2 and COMPATIBLE make machines more alike, but take 1.5 and 18 times as long.
MKL_DISABLE_FAST_MM: MKL otherwise keeps 1.5 MB for each length a window ever had.
ONEDNN_PRIMITIVE_CACHE_CAPACITY: oneDNN otherwise keeps code for 1,024 shapes, 0.5 MB each.
"""

POLL_SECONDS = 0.02
"""How often a waiting call checks whether it was abandoned."""


class AbandonedError(Exception):
    """The caller abandoned the call; the process may still be busy with it."""


class ProcessLostError(Exception):
    """The process died without an answer: a crash in native code, or the OOM killer."""


def start_fork_server() -> None:
    """Must run early, before gRPC has threads and sockets."""
    before = dict(os.environ)
    os.environ.update({**DEFAULTS, **before, **REQUIRED})
    try:
        open_fork_server(PRELOAD)
    finally:
        os.environ.clear()
        os.environ.update(before)


class ModelProcess:
    """One process with one model; starts loading at once."""

    def __init__(self, load: Callable[[], Any], describe: Callable[[Any], Any]) -> None:
        self._info: Any = None
        pipe = two_way_pipe()
        self._process = fork(main, load, describe, pipes=[pipe])
        self._pipe, _ = pipe
        assert self._process.pid is not None  # noqa: S101 - it was started
        self.pid: int = self._process.pid
        self.is_busy = False
        """Whether it is running a command."""

    @property
    def is_loaded(self) -> bool:
        """Whether its model is loaded."""
        return self._info is not None

    def info(self, abandoned: Callable[[], bool]) -> Any:
        """Properties of the model; waits until it is loaded."""
        if self._info is None:
            self._info = self._receive(abandoned)
        return self._info

    def call(self, command: Command, abandoned: Callable[[], bool]) -> Any:
        """Runs a command; the process stays busy with it if the call is abandoned."""
        self.info(abandoned)
        try:
            self._pipe.send(command)
        except OSError as error:
            raise ProcessLostError from error
        self.is_busy = True
        answer = self._receive(abandoned)
        self.is_busy = False
        return answer

    def kill(self) -> None:
        """Kills the process, whatever it is doing, and waits for its end."""
        kill(self._process)
        reap(self._process)
        self._pipe.close()

    def _receive(self, abandoned: Callable[[], bool]) -> Any:
        try:
            while not self._pipe.poll(POLL_SECONDS):
                if abandoned():
                    raise AbandonedError
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise ProcessLostError from error
        if isinstance(answer, Failed):
            raise _error(answer)
        return answer


def _error(failed: Failed) -> MeshError:
    if failed.reason == Reason.MODEL_UNAVAILABLE:
        return UnavailableError(failed.message, reason=failed.reason)
    return InternalError(failed.message, reason=failed.reason)
