"""Silero's voice detector, heard in a stream instead of all at once."""

from typing import Protocol

import numpy as np
import numpy.typing as npt
from faster_whisper.vad import get_vad_model

from transcriber.windows import CHUNK

Audio = npt.NDArray[np.float32]

BATCH = 16 * CHUNK
"""Samples judged in one go. Always the same, at the same places: a batch of another size may round
differently, and the cuts must not depend on how the audio arrived."""

_CONTEXT = 64


class VoiceDetector(Protocol):
    """Listens to one recording from its beginning."""

    def judge(self, batch: Audio) -> Audio:
        """Probability of speech in each chunk of the next BATCH samples."""
        ...


class SileroDetector:
    """The detector that comes with faster-whisper, with its state carried from batch to batch."""

    def __init__(self) -> None:
        self._session = get_vad_model().session
        self._h = np.zeros((1, 1, 128), np.float32)
        self._c = np.zeros((1, 1, 128), np.float32)
        self._context = np.zeros(_CONTEXT, np.float32)

    def judge(self, batch: Audio) -> Audio:
        """Probability of speech in each chunk of the next BATCH samples."""
        rows = batch.reshape(-1, CHUNK)
        # Each chunk is heard together with the end of the one before it.
        before = np.vstack([self._context, rows[:-1, -_CONTEXT:]])
        self._context = rows[-1, -_CONTEXT:].copy()
        inputs = {"input": np.hstack([before, rows]), "h": self._h, "c": self._c}
        probabilities, self._h, self._c = self._session.run(None, inputs)
        return np.asarray(probabilities, np.float32).reshape(-1)
