"""Languages of speech: tags to Whisper's codes, and repeatable detection for a recording."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from mesh.errors import InvalidRequestError
from mesh.languages import primary, tag_of
from mesh.reasons import Reason
from transcriber.decoder import Decoder
from transcriber.speech.listener import AudioWindow
from transcriber.speech.windows import RATE

NEWER = frozenset({"yue"})
"""Codes that only large-v3 and its relatives know."""

MIN_PROBABILITY = 0.8
"""A guess this probable is final."""

ENOUGH = 30 * RATE
"""Samples of speech after which the best guess is final: the encoder takes no more."""


def to_code(tag: str, known: frozenset[str]) -> str:
    """Whisper's code for a tag such as "pt-BR"; refuses languages the model does not know."""
    code = primary(tag)
    if code not in known:
        supported = ", ".join(sorted(known)) if len(known) < 5 else f"{len(known)} others"
        raise InvalidRequestError(
            f"the model does not support {tag!r}, only {supported}",
            reason=Reason.LANGUAGE_UNSUPPORTED,
        )
    return code


def to_tags(codes: Iterable[str]) -> tuple[str, ...]:
    """Tags in alphabetical order."""
    return tuple(sorted(map(tag_of, codes)))


def most_probable(
    probabilities: Mapping[str, float], candidates: frozenset[str]
) -> tuple[str, float]:
    """The most probable language and its probability; among the candidates, if there are any."""
    # Sorted: neither the choice among equals nor the sum may differ between two runs.
    among = {code: probabilities.get(code, 0.0) for code in sorted(candidates or probabilities)}
    best = max(among, key=lambda code: among[code])
    if not candidates:
        return best, among[best]
    total = sum(among.values())
    return best, among[best] / total if total else 1 / len(among)


class LanguageDetector:
    """Detects one language for the recording from its first windows, then keeps it.

    A doubtful guess waits for more speech. No window is decoded before the guess is final: a wrong
    one would fill the first captions with nonsense.
    """

    def __init__(
        self,
        given: str | None,
        known: frozenset[str],
        candidates: frozenset[str] = frozenset(),
    ) -> None:
        only = next(iter(known)) if len(known) == 1 else None
        self.is_given = given is not None
        self.language = given or only
        """The language of the recording."""
        self.probability: float | None = None
        """None unless one language was detected for the whole recording."""
        self.is_decided = self.language is not None
        self._candidates = candidates
        self._audio = np.zeros(0, np.int16)

    @property
    def needs_audio(self) -> bool:
        """Whether the next window may change the language."""
        return not self.is_decided

    def language_of(self, window: AudioWindow) -> str | None:
        """The language of an observed window; None if it was not observed."""
        return self.language

    def observe(self, decoder: Decoder, window: AudioWindow, abandoned: Callable[[], bool]) -> None:
        """Detects again, from all windows so far."""
        if abandoned():
            return
        self._audio = np.concatenate([self._audio, window.audio()])[:ENOUGH]
        self.language, self.probability = most_probable(
            decoder.detect(self._audio, abandoned), self._candidates
        )
        if self.probability >= MIN_PROBABILITY or len(self._audio) >= ENOUGH:
            self.decide()

    def decide(self) -> None:
        """Makes the current guess final: the recording has ended, or the guess is good enough."""
        self.is_decided = True
        self._audio = np.zeros(0, np.int16)


class WindowLanguageDetector(LanguageDetector):
    """Detects the language of each window; for recordings that mix languages."""

    def __init__(self, known: frozenset[str], candidates: frozenset[str] = frozenset()) -> None:
        super().__init__(None, known, candidates)
        self.is_decided = True
        self._speech: Counter[str] = Counter()
        self._latest: tuple[int, str] | None = None

    @property
    def needs_audio(self) -> bool:
        """Every window may be in another language."""
        return True

    def language_of(self, window: AudioWindow) -> str | None:
        """The language of the window that was observed last."""
        return self._latest[1] if self._latest and self._latest[0] == window.span.start else None

    def observe(self, decoder: Decoder, window: AudioWindow, abandoned: Callable[[], bool]) -> None:
        """Detects from this window alone."""
        if abandoned():
            return
        language, _ = most_probable(decoder.detect(window.audio(), abandoned), self._candidates)
        self._latest = window.span.start, language
        self._speech[language] += window.span.speech
        self.language = max(self._speech, key=lambda code: (self._speech[code], code))
