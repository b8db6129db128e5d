"""Processes that hold a model: forked from one that has loaded the libraries already."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mesh.errors import InternalError, MeshError, UnavailableError
from mesh.forking import fork, kill, open_fork_server, reap, two_way_pipe
from mesh.reasons import Reason
from transcriber.child import Failed, Order, main

PRELOAD = "transcriber.preload"
FOR_CHILDREN = {
    "OPENBLAS_NUM_THREADS": "1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
}
"""NumPy's library starts its threads when loaded, and what forks must have none. oneDNN keeps code
for 1,024 shapes otherwise, half a megabyte for each length a window ever had."""

POLL_SECONDS = 0.02
"""How soon it is noticed that nobody waits any more."""


class AbandonedError(Exception):
    """Nobody waits for the answer any more; the child may still be at it."""


class LostError(Exception):
    """The child died without a word: a fault in native code, or the kernel wanted its memory."""


def open_nursery() -> None:
    """Early: before gRPC has threads and sockets."""
    with _environment(FOR_CHILDREN):
        open_fork_server(PRELOAD)


@contextmanager
def _environment(changed: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


class Child:
    """One process with one model; it loads as soon as it is born."""

    def __init__(self, load: Callable[[], Any], describe: Callable[[Any], Any]) -> None:
        self._facts: Any = None
        pipe = two_way_pipe()
        self._process = fork(main, load, describe, pipes=[pipe])
        self._pipe, _ = pipe
        assert self._process.pid is not None  # noqa: S101 - it was started
        self.pid: int = self._process.pid
        self.is_busy = False
        """Whether it works on an order."""

    @property
    def is_loaded(self) -> bool:
        """Whether it has a model."""
        return self._facts is not None

    def facts(self, abandoned: Callable[[], bool]) -> Any:
        """What the model says about itself; waits until it is loaded."""
        if self._facts is None:
            self._facts = self._hear(abandoned)
        return self._facts

    def do(self, order: Order, abandoned: Callable[[], bool]) -> Any:
        """What the decoder answers; still busy with it if that was abandoned."""
        self.facts(abandoned)
        try:
            self._pipe.send(order)
        except OSError as error:
            raise LostError from error
        self.is_busy = True
        answer = self._hear(abandoned)
        self.is_busy = False
        return answer

    def kill(self) -> None:
        """It is gone when this returns, whatever it was doing."""
        kill(self._process)
        reap(self._process)
        self._pipe.close()

    def _hear(self, abandoned: Callable[[], bool]) -> Any:
        try:
            while not self._pipe.poll(POLL_SECONDS):
                if abandoned():
                    raise AbandonedError
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise LostError from error
        if isinstance(answer, Failed):
            raise _error(answer)
        return answer


def _error(failed: Failed) -> MeshError:
    if failed.reason == Reason.MODEL_UNAVAILABLE:
        return UnavailableError(failed.message, reason=failed.reason)
    return InternalError(failed.message, reason=failed.reason)
