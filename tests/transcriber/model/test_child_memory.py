"""What a model's process keeps from window to window, by the C library's own books."""

import ctypes
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from transcriber.decoder import How, Phrase
from transcriber.killable import KillableDecoder
from transcriber.passes import ways
from transcriber.vad import Audio
from transcriber.weights import Weights, locate
from transcriber.whisper import WhisperDecoder

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
MB = 1024**2


class Books(ctypes.Structure):
    """glibc's mallinfo2."""

    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS.split()]


class Bookkeeping(WhisperDecoder):
    """Says how many bytes are in use once a window of that length was encoded."""

    def decode(
        self, audio: Audio, language: str, how: How, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        self._encode(ways(self._features(audio), is_prompted=False)[0].features)
        look = ctypes.CDLL(None).mallinfo2
        look.restype = Books
        return [Phrase(0, 0, str(look().uordblks), 1)]


def bookkeeping(weights: Weights) -> Bookkeeping:
    return Bookkeeping(weights, "cpu", "int8", 1)


def in_use(decoder: KillableDecoder, seconds: float) -> int:
    audio = np.zeros(int(16_000 * seconds), np.float32)
    (said,) = decoder.decode(audio, "en", How(beam_size=1), lambda: False)
    return int(said.text)


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="another C library than glibc 2.33+"
)
def test_windows_of_ever_new_lengths_leave_nothing_behind(weights_cache: Path) -> None:
    weights = locate("tiny.en", weights_cache, "cpu")
    with closing(KillableDecoder(partial(bookkeeping, weights))) as decoder:
        begin = max(in_use(decoder, 11 + step / 10) for step in range(4))
        end = max(in_use(decoder, 11.5 + step / 10) for step in range(16))
    assert end - begin < 3 * MB
