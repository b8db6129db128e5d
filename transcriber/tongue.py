"""Which language a recording is in, decided once and the same way every time."""

from collections.abc import Callable

import numpy as np

from transcriber.decoder import Decoder
from transcriber.vad import Audio
from transcriber.windows import RATE

SURE = 0.5
ENOUGH = 20 * RATE
"""Samples of speech after which the best guess has to do."""


class Tongue:
    """Listens to the first windows until it is sure; then it stays with that.

    Nothing is put into words before: a wrong guess would fill the first captions with nonsense.
    """

    def __init__(self, named: str | None, known: frozenset[str]) -> None:
        only = next(iter(known)) if len(known) == 1 else None
        self.language = named or only
        self.probability: float | None = None
        """None unless it was detected."""
        self.settled = self.language is not None
        self._heard = np.zeros(0, np.float32)

    def listen(self, decoder: Decoder, audio: Audio, abandoned: Callable[[], bool]) -> None:
        """Guesses anew from everything heard so far."""
        if abandoned():
            return
        self._heard = np.concatenate([self._heard, audio])
        self.language, self.probability = decoder.detect(self._heard, abandoned)
        if self.probability >= SURE or len(self._heard) >= ENOUGH:
            self.settle()

    def settle(self) -> None:
        """There is no more to hear: the guess has to do."""
        self.settled = True
        self._heard = np.zeros(0, np.float32)
