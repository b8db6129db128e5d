"""Starts model processes from a fork server that has the libraries loaded, and calls them."""

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from mesh.errors import InternalError, MeshError, UnavailableError
from mesh.forking import REAPING_SECONDS, fork, kill, open_fork_server, reap, two_way_pipe
from mesh.reasons import Reason
from transcriber.decoder import AbandonedError, wait_for
from transcriber.model.child import LOADED, Abandon, Answer, Call, Failed, main

ResultT = TypeVar("ResultT")

PRELOAD = "transcriber.model.preload"
REQUIRED = {"OPENBLAS_NUM_THREADS": "1"}
"""NumPy's OpenBLAS starts its threads when it is imported, and a process that forks must have none.
The thread count also changes how features round, and with that a segment's end."""

DEFAULTS = {
    "MALLOC_ARENA_MAX": "1",
    "MKL_CBWR": "AUTO",
    "MKL_DISABLE_FAST_MM": "1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
}
"""Environment of the model processes; a variable the operator sets wins. CTranslate2 computes with
MKL on Intel and with oneDNN on AMD.

MALLOC_ARENA_MAX: glibc otherwise gives threads arenas of their own, which cannot grow beyond 64 MB
and do not share what is free.
MKL_CBWR=AUTO: the same samples give the same result in every process, wherever its buffers lie, at
no cost. AVX2 and COMPATIBLE make machines more alike, but take 1.5 and 18 times as long.
MKL_DISABLE_FAST_MM: MKL otherwise keeps 1.5 MB for each length a window ever had.
ONEDNN_PRIMITIVE_CACHE_CAPACITY: oneDNN otherwise keeps code for 1,024 shapes, 0.5 MB each.
"""


class ProcessLostError(Exception):
    """The process died without an answer: a crash in native code, or the OOM killer."""


def start_fork_server(backend: Mapping[str, str] | None = None) -> None:
    """Must run early, before gRPC has threads and sockets; takes the backend's environment."""
    before = dict(os.environ)
    os.environ.update({**DEFAULTS, **(backend or {}), **before, **REQUIRED})
    try:
        open_fork_server(PRELOAD)
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_apart(function: Callable[[], ResultT]) -> ResultT:
    """Calls a function in a process of its own, so that the libraries it needs stay out of this."""
    process = ModelProcess(function, _unchanged)
    try:
        found: ResultT = process.info(lambda: False)
    except ProcessLostError as error:
        raise InternalError("the process died", reason=Reason.INTERNAL) from error
    finally:
        process.kill()
    return found


def _unchanged(value: ResultT) -> ResultT:
    return value


class ModelProcess:
    """One process with one model; starts loading at once, and answers any number of threads."""

    def __init__(self, load: Callable[[], Any], describe: Callable[[Any], Any]) -> None:
        pipe = two_way_pipe()
        self._process = fork(main, load, describe, pipes=[pipe])
        self._pipe, _ = pipe
        assert self._process.pid is not None  # noqa: S101 - it was started
        self.pid: int = self._process.pid
        self._lock = threading.Lock()
        """Guards what follows, and the order of what is written to the pipe."""
        self._loaded: Future[Any] = Future()
        self._awaited: dict[int, Future[Any]] = {LOADED: self._loaded}
        self._unwanted: set[int] = set()
        """Abandoned calls that still run."""
        self._numbers = count(LOADED + 1)
        self._is_lost = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_loaded(self) -> bool:
        """Whether its model is loaded."""
        return self._loaded.done() and self._loaded.exception() is None

    @property
    def runs_only_unwanted(self) -> bool:
        """Whether it computes, and no caller waits for it."""
        with self._lock:
            return bool(self._unwanted) and not self._awaited

    def info(self, abandoned: Callable[[], bool]) -> Any:
        """Properties of the model; waits until it is loaded."""
        return wait_for(self._loaded, abandoned)

    def call(self, abandoned: Callable[[], bool], method: str, *arguments: Any) -> Any:
        """Calls a method; a call that is abandoned runs on until the process notices."""
        self.info(abandoned)
        with self._lock:
            if self._is_lost:
                raise ProcessLostError
            number = next(self._numbers)
            answer = self._awaited[number] = Future()
            self._send(Call(number, method, arguments))
        try:
            return wait_for(answer, abandoned)
        except AbandonedError:
            with self._lock:
                if self._awaited.pop(number, None):
                    self._unwanted.add(number)
                    self._send(Abandon(number))
            raise

    def kill(self) -> None:
        """Kills the process, whatever it is doing, and waits for its end."""
        kill(self._process)
        reap(self._process)
        self._reader.join(REAPING_SECONDS)
        self._pipe.close()

    def _send(self, message: Call | Abandon) -> None:
        with suppress(OSError):  # the reader notices that the process is gone
            self._pipe.send(message)

    def _read(self) -> None:
        """Passes answers on until the process is gone."""
        with suppress(EOFError, OSError):
            while True:
                answer: Answer = self._pipe.recv()
                with self._lock:
                    self._unwanted.discard(answer.number)
                    awaited = self._awaited.pop(answer.number, None)
                if awaited is not None:
                    _resolve(awaited, answer.value)
        with self._lock:
            self._is_lost = True
            lost = list(self._awaited.values())
            self._awaited.clear()
            self._unwanted.clear()
        for each in lost:
            each.set_exception(ProcessLostError())


def _resolve(awaited: Future[Any], value: Any) -> None:
    if isinstance(value, Failed):
        awaited.set_exception(_error(value))
    else:
        awaited.set_result(value)


def _error(failed: Failed) -> MeshError:
    if failed.reason == Reason.MODEL_UNAVAILABLE:
        return UnavailableError(failed.message, reason=failed.reason)
    return InternalError(failed.message, reason=failed.reason)
