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

SPEECH, QUIET, QUIET_BATCHES = 0.5, 0.1, 4
"""Somebody speaks; nobody does; after so many batches of that the detector listens afresh."""

_CONTEXT = 64
_FRESH = (np.zeros((1, 1, 128), np.float32), np.zeros((1, 1, 128), np.float32))


class VoiceDetector(Protocol):
    """Listens to one recording from its beginning."""

    def judge(self, batch: Audio) -> Audio:
        """Probability of speech in each chunk of the next BATCH samples."""
        ...


class SileroDetector:
    """The detector that comes with faster-whisper, with its state carried from batch to batch."""

    def __init__(self) -> None:
        self._session = get_vad_model().session
        self._context = np.zeros(_CONTEXT, np.float32)
        self._state = _FRESH
        self._spoke = False
        self._quiet = 0

    def judge(self, batch: Audio) -> Audio:
        """Probability of speech in each chunk of the next BATCH samples."""
        rows = batch.reshape(-1, CHUNK)
        # Each chunk is heard together with the end of the one before it.
        before = np.vstack([self._context, rows[:-1, -_CONTEXT:]])
        self._context = rows[-1, -_CONTEXT:].copy()
        h, c = self._state
        found, h, c = self._session.run(None, {"input": np.hstack([before, rows]), "h": h, "c": c})
        probabilities = np.asarray(found, np.float32).reshape(-1)
        self._state = _FRESH if self._is_over(float(probabilities.max())) else (h, c)
        return probabilities

    def _is_over(self, loudest: float) -> bool:
        """Whether a long pause after speech has just come to its full length.

        What the detector remembers of a loud voice would keep it from noticing a soft one. Once is
        enough: in noise, a detector that keeps beginning anew hears voices.
        """
        self._spoke = self._spoke or loudest >= SPEECH
        self._quiet = self._quiet + 1 if loudest < QUIET else 0
        is_over = self._spoke and self._quiet >= QUIET_BATCHES
        self._spoke = self._spoke and not is_over
        return is_over
