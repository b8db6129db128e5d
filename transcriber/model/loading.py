"""Loads a speech model in a process of its own, with glibc tuned to reuse memory."""

import ctypes
import sys

from transcriber.decoder import Weights
from transcriber.speech.whisper import WhisperDecoder

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEEP = 2**31 - 1


def load_whisper(
    weights: Weights, device: str, compute_type: str, threads: int, workers: int = 1
) -> WhisperDecoder:
    """A decoder ready for its first window; changes malloc for the whole process."""
    _keep_freed_memory()
    decoder = WhisperDecoder(weights, device, compute_type, threads, workers)
    decoder.warm_up()
    return decoder


def _keep_freed_memory() -> None:
    """Makes glibc reuse large buffers instead of returning them to the system after each layer.

    Otherwise a third of the time of encoding a full window goes into page faults for memory that
    was mapped a moment ago. The process keeps what its longest window needs.
    """
    if sys.platform.startswith("linux"):
        adjust = getattr(ctypes.CDLL(None), "mallopt", None)
        if adjust is not None:  # glibc only
            adjust(_ARENA_MAX, 1)  # only the main arena may grow beyond 64 MB
            adjust(_MMAP_THRESHOLD, _KEEP)
            adjust(_TRIM_THRESHOLD, _KEEP)
