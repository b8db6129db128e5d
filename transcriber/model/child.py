"""Main loop of a model process: loads one model, then answers commands from a pipe."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from mesh.errors import MeshError
from mesh.forking import end_with_parent
from mesh.reasons import Reason
from transcriber.decoder import AbandonedError

MAX_CALLS = 256
"""Threads that may wait for the model at the same time."""

LOADED = 0
"""Number of the first answer: the properties of the model."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of the model's methods, with the number its answer carries."""

    number: int
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Abandon:
    """The answer to a call is no longer needed."""

    number: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call returned; Failed if it raised."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """Error answer to the service."""

    message: str
    reason: Reason


def main(load: Callable[[], Any], describe: Callable[[Any], Any], pipe: Connection) -> None:
    """Loads the model, then answers calls, several at once, until the pipe closes."""
    end_with_parent(pipe.fileno())
    try:
        model = load()
        pipe.send(Answer(LOADED, describe(model)))
    except Exception as error:  # noqa: BLE001 - any error is reported to the service
        pipe.send(Answer(LOADED, _failed(error)))
        return
    with suppress(EOFError, BrokenPipeError):  # the service is gone
        _Calls(model, pipe).serve()


class _Calls:
    """Calls under way, each on a thread of its own: the model decides which to compute."""

    def __init__(self, model: Any, pipe: Connection) -> None:
        self._model = model
        self._pipe = pipe
        self._writing = threading.Lock()
        self._abandoned: dict[int, threading.Event] = {}
        self._threads = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="call")

    def serve(self) -> None:
        while True:
            match self._pipe.recv():
                case Call() as call:
                    self._abandoned[call.number] = threading.Event()
                    self._threads.submit(self._answer, call)
                case Abandon(number) if number in self._abandoned:
                    self._abandoned[number].set()

    def _answer(self, call: Call) -> None:
        abandoned = self._abandoned[call.number].is_set
        try:
            value = getattr(self._model, call.method)(*call.arguments, abandoned)
        except AbandonedError:
            value = None
        except Exception as error:  # noqa: BLE001 - a bad window does not cost a reload
            value = _failed(error)
        with self._writing, suppress(BrokenPipeError):
            self._pipe.send(Answer(call.number, value))
        del self._abandoned[call.number]


def _failed(error: Exception) -> Failed:
    if isinstance(error, MeshError):
        return Failed(str(error), error.reason)
    return Failed(f"the model failed: {type(error).__name__}: {error}", Reason.INTERNAL)
