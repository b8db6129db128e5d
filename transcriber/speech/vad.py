"""Voice activity detection: Silero's model, run on a stream with its state carried along."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from transcriber.decoder import Floats
from transcriber.speech.windows import CHUNK

BATCH = 16 * CHUNK
"""Samples per run. Fixed size and alignment: another batch size may round differently, and cuts
must not depend on how the audio arrived."""

SPEECH, QUIET, QUIET_BATCHES = 0.5, 0.1, 4
"""Probabilities of speech and of silence; after so many silent batches the state is reset."""

_CONTEXT = 64
_FRESH = (np.zeros((1, 1, 128), np.float32), np.zeros((1, 1, 128), np.float32))


class VoiceDetector(Protocol):
    """Detects speech in one recording, from its beginning."""

    def judge(self, batch: Floats) -> Floats:
        """Probability of speech in each chunk of the next BATCH samples."""
        ...


@cache
def _session() -> Any:
    """The model that comes with faster-whisper, run as there; importing that costs 40 MB."""
    import onnxruntime

    spec = find_spec("faster_whisper")
    assert spec is not None and spec.submodule_search_locations  # noqa: S101,PT018 # required
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        Path(spec.submodule_search_locations[0], "assets", "silero_vad_v6.onnx"),
        providers=["CPUExecutionProvider"],
        sess_options=options,
    )


class SileroDetector:
    """Silero's detector, with its state carried from batch to batch."""

    def __init__(self) -> None:
        self._session = _session()
        self._context = np.zeros(_CONTEXT, np.float32)
        self._state = _FRESH
        self._spoke = False
        self._quiet = 0

    def judge(self, batch: Floats) -> Floats:
        """Probability of speech in each chunk of the next BATCH samples."""
        rows = batch.reshape(-1, CHUNK)
        # Each chunk is preceded by the end of the previous one.
        before = np.vstack([self._context, rows[:-1, -_CONTEXT:]])
        self._context = rows[-1, -_CONTEXT:].copy()
        h, c = self._state
        found, h, c = self._session.run(None, {"input": np.hstack([before, rows]), "h": h, "c": c})
        probabilities = np.asarray(found, np.float32).reshape(-1)
        self._state = _FRESH if self._is_over(float(probabilities.max())) else (h, c)
        return probabilities

    def _is_over(self, loudest: float) -> bool:
        """Whether a pause after speech has just become long enough for a reset of the state.

        State left by a loud voice hides a soft one. One reset per pause: in noise, a detector that
        is reset again and again reports speech.
        """
        self._spoke = self._spoke or loudest >= SPEECH
        self._quiet = self._quiet + 1 if loudest < QUIET else 0
        is_over = self._spoke and self._quiet >= QUIET_BATCHES
        self._spoke = self._spoke and not is_over
        return is_over
