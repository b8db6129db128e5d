"""Which language a recording is in, decided once and the same way every time."""

from transcriber.decoder import Decoder
from transcriber.vad import Audio

SURE = 0.5
MAX_GUESSES = 4


class Tongue:
    """Listens to the first windows until it is sure; then it stays with that."""

    def __init__(self, named: str | None, known: frozenset[str]) -> None:
        only = next(iter(known)) if len(known) == 1 else None
        self.language = named or only
        self.probability: float | None = None
        """None unless it was detected."""
        self.settled = self.language is not None
        self._guesses = 0

    def listen(self, decoder: Decoder, audio: Audio) -> str:
        """The language this window is to be decoded in; the best guess so far."""
        if not self.settled:
            code, probability = decoder.detect(audio)
            self._guesses += 1
            if self.probability is None or probability > self.probability:
                self.language, self.probability = code, probability
            self.settled = probability >= SURE or self._guesses >= MAX_GUESSES
        assert self.language is not None  # noqa: S101 # settled, or just guessed
        return self.language
