"""Errors of a transcript against its reference, after Whisper's own normalisers."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import jiwer
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

BY_CHARACTER = frozenset({"bo", "ja", "km", "lo", "my", "th", "yue", "zh"})
"""Languages written without spaces between words: a character counts as a word."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Words substituted, left out or added, among those that were said."""

    said: int
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def wrong(self) -> int:
        """All errors."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def percent(self) -> float:
        """The word error rate; not defined if nothing was said."""
        return 100 * self.wrong / self.said

    @classmethod
    def total(cls, parts: Iterable["Errors"]) -> "Errors":
        """Of several recordings: a long one counts for more."""
        listed = list(parts)
        return cls(
            sum(part.said for part in listed),
            sum(part.substitutions for part in listed),
            sum(part.deletions for part in listed),
            sum(part.insertions for part in listed),
        )


def words_of(text: str, language: str) -> list[str]:
    """The normalised words of a text; its characters in a language written without spaces."""
    return _normaliser(language)(text).split()


def count_errors(reference: str, heard: str, language: str) -> Errors:
    """Compares what was heard with what was said; the language is that of the reference."""
    return _count(words_of(reference, language), words_of(heard, language))


def count_cut_errors(reference: str, heard: str, language: str, kept: float) -> Errors:
    """The same for a recording cut off after the share `kept` of its speech.

    The word at the cut is unknown, so the text is compared with the prefix of the reference that
    has the fewest errors. The prefix has at least half the words expected at the cut: otherwise
    an empty text would be perfect. The number of words said is the expected one for every text.
    """
    said, found = words_of(reference, language), words_of(heard, language)
    expected = max(1, round(kept * len(said)))
    distances = _prefix_distances(said, found)
    best = min(
        range(math.ceil(expected / 2), len(said) + 1),
        key=lambda length: (distances[length], abs(length - expected)),
    )
    errors = _count(said[:best], found)
    return Errors(expected, errors.substitutions, errors.deletions, errors.insertions)


def _count(said: Sequence[str], found: Sequence[str]) -> Errors:
    if not said:
        return Errors(0, insertions=len(found))
    aligned = jiwer.process_words(" ".join(said), " ".join(found))
    return Errors(len(said), aligned.substitutions, aligned.deletions, aligned.insertions)


def right_words(reference: str, heard: Sequence[str], language: str) -> list[list[bool]]:
    """For each text heard, whether each of its words was said."""
    said = words_of(reference, language)
    texts = [words_of(text, language) for text in heard]
    found = [word for words in texts for word in words]
    if not said or not found:
        return [[False] * len(words) for words in texts]
    aligned = jiwer.process_words(" ".join(said), " ".join(found))
    right = {
        number
        for chunk in aligned.alignments[0]
        if chunk.type == "equal"
        for number in range(chunk.hyp_start_idx, chunk.hyp_end_idx)
    }
    numbers = iter(range(len(found)))
    return [[next(numbers) in right for _ in words] for words in texts]


def _prefix_distances(said: Sequence[str], found: Sequence[str]) -> list[int]:
    """The edit distance between all words found and each prefix of those said."""
    row = list(range(len(said) + 1))
    for number, word in enumerate(found, start=1):
        previous, row = row, [number]
        for column, expected in enumerate(said, start=1):
            changed = previous[column - 1] + (word != expected)
            row.append(min(changed, previous[column] + 1, row[-1] + 1))
    return row


@cache
def _normaliser(language: str) -> Callable[[str], str]:
    if language == "en":
        normaliser = EnglishTextNormalizer()
    else:
        normaliser = BasicTextNormalizer(split_letters=language in BY_CHARACTER)
    return lambda text: str(normaliser(text))
