"""Which language a recording is in, decided once and the same way every time."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from transcriber.decoder import Decoder
from transcriber.listening import HeardWindow
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
        self.is_named = named is not None
        self.mostly = named or only
        """The language of the recording."""
        self.probability: float | None = None
        """None unless it was detected, once for all."""
        self.settled = self.mostly is not None
        self._heard = np.zeros(0, np.float32)

    @property
    def wants_to_listen(self) -> bool:
        """Whether the next window may change anything."""
        return not self.settled

    def of(self, window: HeardWindow) -> str | None:
        """The language of a window that was listened to; None if nobody listened."""
        return self.mostly

    def listen(self, decoder: Decoder, window: HeardWindow, abandoned: Callable[[], bool]) -> None:
        """Guesses anew from everything heard so far."""
        if abandoned():
            return
        self._heard = np.concatenate([self._heard, window.audio()])
        self.mostly, self.probability = decoder.detect(self._heard, abandoned)
        if self.probability >= SURE or len(self._heard) >= ENOUGH:
            self.settle()

    def settle(self) -> None:
        """There is no more to hear: the guess has to do."""
        self.settled = True
        self._heard = np.zeros(0, np.float32)


class MixedTongues(Tongue):
    """Tells the language of every window apart; nobody has to wait for more speech."""

    def __init__(self, known: frozenset[str]) -> None:
        super().__init__(None, known)
        self.settled = True
        self._spoken: Counter[str] = Counter()
        self._latest: tuple[int, str] | None = None

    @property
    def wants_to_listen(self) -> bool:
        """Every window may be in another language."""
        return True

    def of(self, window: HeardWindow) -> str | None:
        """The language of the window that was just listened to."""
        return self._latest[1] if self._latest and self._latest[0] == window.span.start else None

    def listen(self, decoder: Decoder, window: HeardWindow, abandoned: Callable[[], bool]) -> None:
        """Guesses from this window alone."""
        if abandoned():
            return
        language, _ = decoder.detect(window.audio(), abandoned)
        self._latest = window.span.start, language
        self._spoken[language] += window.span.speech
        self.mostly = max(self._spoken, key=lambda code: (self._spoken[code], code))
