"""Memory a model process keeps from window to window, and the environment that bounds it."""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.transcriber_process import ROOT
from transcriber.decoder import Audio, DecodeOptions, Phrase, Weights
from transcriber.model.fork_server import DEFAULTS, REQUIRED
from transcriber.model.restartable import RestartableDecoder
from transcriber.model.weights import locate
from transcriber.speech.decode_fallbacks import short_length
from transcriber.speech.whisper import WhisperDecoder

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
MB = 1024**2


class MallocInfo(ctypes.Structure):
    """glibc's mallinfo2."""

    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS.split()]


class MeteredDecoder(WhisperDecoder):
    """Returns the bytes in use after it encoded a window, as text."""

    def decode(
        self, audio: Audio, language: str, options: DecodeOptions, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        features = self._features(audio)
        self._encoding(features, short_length(features.shape[1])).compute()
        look = ctypes.CDLL(None).mallinfo2
        look.restype = MallocInfo
        return [Phrase(0, 0, str(look().uordblks), 1)]


def metered(weights: Weights) -> MeteredDecoder:
    return MeteredDecoder(weights, "cpu", "int8", 1)


def in_use(decoder: RestartableDecoder, seconds: float) -> int:
    audio = np.zeros(int(16_000 * seconds), np.int16)
    (said,) = decoder.decode(audio, "en", DecodeOptions(beam_size=1), lambda: False)
    return int(said.text)


SHOW_ENVIRONMENT = """
import importlib, json, operator
from functools import partial
from transcriber.model.fork_server import DEFAULTS, REQUIRED, ModelProcess, start_fork_server

start_fork_server()
environ = ModelProcess(partial(importlib.import_module, "os"), operator.attrgetter("environ._data"))
found = {key.decode(): value.decode() for key, value in environ.info(lambda: False).items()}
print(json.dumps({name: found[name] for name in DEFAULTS | REQUIRED}))
environ.kill()
"""


def test_operators_override_numeric_settings_but_not_the_thread_count_of_the_fork_server() -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if name not in DEFAULTS},
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'gen'}",
        "MKL_CBWR": "AVX2",
        "OPENBLAS_NUM_THREADS": "4",
    }
    command = [sys.executable, "-c", SHOW_ENVIRONMENT]

    shown = subprocess.run(command, env=environment, check=True, capture_output=True, timeout=240)

    assert json.loads(shown.stdout) == {**DEFAULTS, **REQUIRED, "MKL_CBWR": "AVX2"}


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="another C library than glibc 2.33+"
)
def test_memory_does_not_grow_with_windows_of_new_lengths(weights_cache: Path) -> None:
    weights = locate("tiny.en", weights_cache, "cpu")
    with closing(RestartableDecoder(partial(metered, weights))) as decoder:
        begin = max(in_use(decoder, 11 + step / 10) for step in range(4))
        end = max(in_use(decoder, 11.5 + step / 10) for step in range(16))
    assert end - begin < 3 * MB
