"""Engines to plug in as the isolator, each for one rule."""

import numpy as np

from normalizer.isolator import Sound


class Halving:
    """Keeps the contract: what it gives is half as loud, and late by a little."""

    name = "halving"
    rate = 24_000

    def __init__(self) -> None:
        self.settings = {"by": "2"}
        self._late: Sound = np.empty(0, np.float32)

    def feed(self, sound: Sound) -> Sound:
        ready, self._late = self._late, sound * np.float32(0.5)
        return ready

    def finish(self) -> Sound:
        return self._late


class Swallowing(Halving):
    """Loses the end, once it is no longer being tried out."""

    _fed = 0

    def feed(self, sound: Sound) -> Sound:
        self._fed += len(sound)
        return super().feed(sound)

    def finish(self) -> Sound:
        return self._late if self._fed <= self.rate else self._late[:0]


class Crashing(Halving):
    """Dies like a native library."""

    _fed = 0

    def feed(self, sound: Sound) -> Sound:
        self._fed += len(sound)
        if self._fed > self.rate:
            raise MemoryError("no room for the model")
        return super().feed(sound)
