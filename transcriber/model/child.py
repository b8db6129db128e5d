"""Main loop of a model process: loads one model, then answers commands from a pipe."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from mesh.errors import MeshError
from mesh.forking import end_with_parent
from mesh.reasons import Reason
from transcriber.decoder import Audio, DecodeOptions
from transcriber.translation.translator import Translate


@dataclass(frozen=True, slots=True)
class Detect:
    """Command: the probability of each language."""

    audio: Audio


@dataclass(frozen=True, slots=True)
class Decode:
    """Command: decode a window."""

    audio: Audio
    language: str
    options: DecodeOptions


Command = Detect | Decode | Translate


@dataclass(frozen=True, slots=True)
class Failed:
    """Error answer to the service."""

    message: str
    reason: Reason


def main(load: Callable[[], Any], describe: Callable[[Any], Any], pipe: Connection) -> None:
    """Loads the model, then runs one command after the other until the pipe closes."""
    end_with_parent(pipe.fileno())
    try:
        model = load()
        pipe.send(describe(model))
    except Exception as error:  # noqa: BLE001 - any error is reported to the service
        pipe.send(_failed(error))
        return
    with suppress(EOFError, BrokenPipeError):  # the service is gone
        while True:
            pipe.send(_answer(model, pipe.recv()))


def _answer(model: Any, command: Command) -> Any:
    try:
        return _run(model, command)
    except Exception as error:  # noqa: BLE001 - a bad window does not cost a reload
        return _failed(error)


def _run(model: Any, command: Command) -> Any:
    match command:
        case Detect():
            return model.detect(command.audio, _never)
        case Decode():
            return model.decode(command.audio, command.language, command.options, _never)
        case Translate():
            return model.translate(command, _never)


def _never() -> bool:
    """The service kills the process instead of abandoning a command."""
    return False


def _failed(error: Exception) -> Failed:
    if isinstance(error, MeshError):
        return Failed(str(error), error.reason)
    return Failed(f"the model failed: {type(error).__name__}: {error}", Reason.INTERNAL)
