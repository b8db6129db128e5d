"""The other side of the pipe: holds a model, in a process that may be killed at any moment."""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

from mesh.errors import MeshError
from mesh.reasons import Reason
from transcriber.decoder import Decoder, How
from transcriber.translating import Translate, Translator
from transcriber.vad import Audio


@dataclass(frozen=True, slots=True)
class Facts:
    """What a loaded decoder says about itself; always the first answer."""

    model: str
    device: str
    compute_type: str
    languages: frozenset[str]
    translates: bool


@dataclass(frozen=True, slots=True)
class TranslatorFacts:
    """What a loaded translator says about itself; always the first answer."""

    model: str
    sources: frozenset[str]
    targets: frozenset[str]


@dataclass(frozen=True, slots=True)
class Detect:
    """Asks which language is spoken."""

    audio: Audio


@dataclass(frozen=True, slots=True)
class Decode:
    """Asks what is said."""

    audio: Audio
    language: str
    how: How


Order = Detect | Decode | Translate


@dataclass(frozen=True, slots=True)
class Failed:
    """An error on its way to the service."""

    message: str
    reason: Reason


def main(load: Callable[[], Any], describe: Callable[[Any], Any], pipe: Connection) -> None:
    """Loads the model, then carries out one order after the other."""
    os.setsid()
    Thread(target=_die_with_the_service, args=(pipe.fileno(),), daemon=True).start()
    try:
        model = load()
        pipe.send(describe(model))
    except Exception as error:  # noqa: BLE001 - whatever it is, the service must hear of it
        pipe.send(_failed(error))
        return
    with suppress(EOFError, BrokenPipeError):  # the service went
        while True:
            pipe.send(_answer(model, pipe.recv()))


def decoder_facts(decoder: Decoder) -> Facts:
    """Describes a decoder."""
    return Facts(
        decoder.model,
        decoder.device,
        decoder.compute_type,
        decoder.languages,
        decoder.translates,
    )


def translator_facts(translator: Translator) -> TranslatorFacts:
    """Describes a translator."""
    return TranslatorFacts(translator.model, translator.sources, translator.targets)


def _answer(model: Any, order: Order) -> Any:
    try:
        return _carry_out(model, order)
    except Exception as error:  # noqa: BLE001 - one bad window is no reason to load again
        return _failed(error)


def _carry_out(model: Any, order: Order) -> Any:
    match order:
        case Detect():
            return model.detect(order.audio, _never)
        case Decode():
            return model.decode(order.audio, order.language, order.how, _never)
        case Translate():
            return model.translate(order, _never)


def _never() -> bool:
    """Whoever is not waited for here is killed instead."""
    return False


def _failed(error: Exception) -> Failed:
    if isinstance(error, MeshError):
        return Failed(str(error), error.reason)
    return Failed(f"the model failed: {type(error).__name__}: {error}", Reason.INTERNAL)


def _die_with_the_service(pipe: int) -> None:
    """A pipe without another end reports it: nobody is left to decode for."""
    other_end_gone = select.poll()
    other_end_gone.register(pipe, 0)
    other_end_gone.poll()
    os.kill(os.getpid(), signal.SIGKILL)
