"""How many words were misheard, after Whisper's own normaliser."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import jiwer
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer


@dataclass(frozen=True, slots=True)
class Errors:
    """Words substituted, left out or added, among those that were said."""

    wrong: int
    said: int

    @property
    def percent(self) -> float:
        """The word error rate."""
        return 100 * self.wrong / self.said

    @classmethod
    def total(cls, parts: Iterable["Errors"]) -> "Errors":
        """Of several recordings: a long one counts for more."""
        listed = list(parts)
        return cls(sum(part.wrong for part in listed), sum(part.said for part in listed))


def count_errors(reference: str, heard: str, language: str) -> Errors:
    """Compares what was heard with what was said; the language is that of the reference."""
    normalise = _normaliser(language)
    said = normalise(reference)
    found = jiwer.process_words(said, normalise(heard))
    return Errors(found.substitutions + found.deletions + found.insertions, len(said.split()))


@cache
def _normaliser(language: str) -> Callable[[str], str]:
    normaliser = EnglishTextNormalizer() if language == "en" else BasicTextNormalizer()
    return lambda text: str(normaliser(text))
