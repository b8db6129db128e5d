"""Function words by language: they begin phrases, and must not end a line.

The words are in phrases.toml.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class SmallWords:
    """The function words of one language."""

    determiners: frozenset[str] = frozenset()
    """Articles, possessives, demonstratives: a noun follows."""
    prepositions: frozenset[str] = frozenset()
    conjunctions: frozenset[str] = frozenset()
    """Relatives included: a clause begins."""
    helpers: frozenset[str] = frozenset()
    """Auxiliary verbs, pronouns before a verb, negations."""
    genitives: frozenset[str] = frozenset()
    """Prepositions that tie two nouns together."""
    particles: frozenset[str] = frozenset()
    """Parts of the verb before them."""
    nouns_are_capital: bool = False

    def cling(self, word: str) -> bool:
        """Whether a word belongs to what follows it."""
        return word in self.determiners or word in self.prepositions or word in self.conjunctions


def word_set(text: str) -> frozenset[str]:
    """The words of a text, split at spaces."""
    return frozenset(text.split())


def _small_words(entries: Mapping[str, Any]) -> SmallWords:
    values: dict[str, Any] = {
        kind: word_set(entry) if isinstance(entry, str) else entry
        for kind, entry in entries.items()
    }
    return SmallWords(**values)


_WORDS = tomllib.loads(files("captions").joinpath("phrases.toml").read_text(encoding="utf-8"))
_BY_LANGUAGE = {language: _small_words(entries) for language, entries in _WORDS.items()}
_BY_LANGUAGE["yue"] = _BY_LANGUAGE["zh"]


def small_words(language: str) -> SmallWords:
    """The function words of a language; empty for unsupported languages."""
    primary = language.lower().replace("_", "-").partition("-")[0]
    return _BY_LANGUAGE.get(primary, SmallWords())
