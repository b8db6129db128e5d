"""Chooses and loads models. Runs in model processes, where the libraries of the models are.

The service imports this module to name its functions; so they import those libraries themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transcriber.decoder import Weights
from transcriber.model.malloc import keep_freed_memory, trim
from transcriber.speech.batching import MAX_BATCH

if TYPE_CHECKING:
    from transcriber.speech.whisper import WhisperDecoder
    from transcriber.translation.ctranslate import CTranslator


AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Selection:
    """What to load, and how."""

    weights: Weights | str
    """A name if the hub must send them."""
    device: str
    compute_type: str
    max_batch: int = MAX_BATCH
    """Windows generated together."""


def select(model: str, cache_dir: Path, device: str, compute_type: str) -> Selection:
    """Settings of this machine for what an operator configured; "auto" is decided."""
    from transcriber.model.backends import recorded
    from transcriber.model.weights import find
    from transcriber.speech.whisper import choose_compute_type, choose_device

    device = choose_device(device)
    weights = find(model, cache_dir, device)
    measured = recorded(cache_dir, model)
    if compute_type == AUTO and device == "cpu" and measured is not None:
        return Selection(weights, device, measured.compute_type, measured.batch)
    return Selection(weights, device, choose_compute_type(compute_type, device))


def installed(device: str) -> Sequence[str]:
    """Names of the models that need no network, best first."""
    from transcriber.model.weights import on_this_machine
    from transcriber.speech.whisper import choose_device

    return on_this_machine(choose_device(device))


def load_whisper(  # noqa: PLR0913 # how it is loaded
    weights: Weights,
    device: str,
    compute_type: str,
    threads: int,
    workers: int = 1,
    max_batch: int = MAX_BATCH,
) -> "WhisperDecoder":
    """A decoder ready for its first window; changes malloc for the whole process."""
    from transcriber.speech.whisper import WhisperDecoder

    keep_freed_memory()
    decoder = WhisperDecoder(weights, device, compute_type, threads, workers, max_batch, trim)
    trim()  # weights are converted while they load, which takes twice their size
    decoder.warm_up()
    return decoder


def load_translator(
    folder: Path, languages: str, device: str, compute_type: str, threads: int
) -> "CTranslator":
    """A translator ready for its first text."""
    from transcriber.translation.ctranslate import CTranslator

    return CTranslator(folder, languages, device, compute_type, threads)
