"""Voice isolators for tests, each for one rule."""

import numpy as np

from normalizer.voice_isolator import AudioArray


class Halving:
    """Keeps the contract: halves the volume, and lags behind its input."""

    name = "halving"
    rate = 24_000

    def __init__(self) -> None:
        self.settings = {"by": "2"}
        self._late: AudioArray = np.empty(0, np.float32)

    def feed(self, sound: AudioArray) -> AudioArray:
        ready, self._late = self._late, sound * np.float32(0.5)
        return ready

    def finish(self) -> AudioArray:
        return self._late


class Losing(Halving):
    """Loses the last samples of anything longer than the probe."""

    _fed = 0

    def feed(self, sound: AudioArray) -> AudioArray:
        self._fed += len(sound)
        return super().feed(sound)

    def finish(self) -> AudioArray:
        return self._late if self._fed <= self.rate else self._late[:0]


class Crashing(Halving):
    """Crashes on anything longer than the probe."""

    _fed = 0

    def feed(self, sound: AudioArray) -> AudioArray:
        self._fed += len(sound)
        if self._fed > self.rate:
            raise MemoryError("no room for the model")
        return super().feed(sound)
