"""Rates every place between two tokens as a cut: sentence, clause, phrase, or none of these."""

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from captions.model import Token

SENTENCE = 0.0
CLAUSE = 8.0
CONJUNCTION = 12.0
PREPOSITION = 17.0
PREDICATE = 20.0
SEGMENT = 20.0
GENITIVE = 24.0
WORD = 30.0
FIGURE = 40.0
PARTICLE = 42.0
HELPER = 45.0
NAME = 45.0
CLINGING = 70.0
SEVERED = 100.0
"""Cost of a cut at each kind of place; higher is worse."""

FULL_PAUSE_MS = 600
"""A pause of this length gives the full discount."""
PAUSE_DISCOUNT = 0.6
"""Share of the cost that such a pause removes."""

_SENTENCE_ENDS = tuple(".!?…。！？؟۔।")
_CLAUSE_ENDS = tuple(",;:–—、，；：،؛")
_CLOSING = "\"'”’»)]}」』）】›*_♪"
THAI = frozenset(map(chr, range(0x0E00, 0x0E80)))
"""Thai letters: there a space ends a clause."""
KEEPS_CAPITAL = frozenset(["i", "i'm", "i've", "i'll", "i'd"])


@dataclass(frozen=True, slots=True)
class SmallWords:
    """The function words of one language: they begin phrases, and must not end a line."""

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


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _small_words(entries: Mapping[str, Any]) -> SmallWords:
    values: dict[str, Any] = {
        kind: _word_set(entry) if isinstance(entry, str) else entry
        for kind, entry in entries.items()
    }
    return SmallWords(**values)


_ABBREVIATIONS = _word_set(
    "mr mrs ms dr prof st vs etc jr sr sra dra e.g i.e no fig z.b bzw ca bspw mme pág art"
)
_WORDS = tomllib.loads(files("captions").joinpath("phrases.toml").read_text(encoding="utf-8"))
_BY_LANGUAGE = {language: _small_words(entries) for language, entries in _WORDS.items()}
_BY_LANGUAGE["yue"] = _BY_LANGUAGE["zh"]


def small_words(language: str) -> SmallWords:
    """The function words of a language; empty for unsupported languages."""
    primary = language.lower().replace("_", "-").partition("-")[0]
    return _BY_LANGUAGE.get(primary, SmallWords())


@dataclass(frozen=True, slots=True)
class Boundaries:
    """One entry for each place before a token, and one for the end."""

    cost: list[float]
    ends_sentence: list[bool]
    """Whether a sentence ends right before the place."""
    pause: list[int]
    """Silence at the place, in milliseconds."""


def boundaries(tokens: Sequence[Token], language: str) -> Boundaries:
    """Rates every place between two tokens; both ends of the text cost nothing."""
    small = small_words(language)
    cost, ends, pause = [SENTENCE], [True], [0]
    for before, after in itertools.pairwise(tokens):
        silence = after.start - before.end
        ended = _ends_sentence(before, after, small)
        ends.append(ended)
        pause.append(silence)
        eased = 1 - PAUSE_DISCOUNT * min(1.0, silence / FULL_PAUSE_MS)
        cost.append(SENTENCE if ended else _within_sentence(before, after, small) * eased)
    if tokens:
        cost.append(SENTENCE)
        ends.append(True)
        pause.append(0)
    return Boundaries(cost, ends, pause)


def _ends_sentence(before: Token, after: Token, small: SmallWords) -> bool:
    if after.severed:
        return False
    if ends_sentence(before.text, after.text):
        return True
    # A transcript without full stops still begins sentences with a capital.
    begins = before.segment != after.segment and after.text[:1].isupper()
    first, clause = bare_word(after.text), before.text.rstrip(_CLOSING).endswith(_CLAUSE_ENDS)
    kept = small.nouns_are_capital or clause or first in KEEPS_CAPITAL
    return begins and not kept and not small.cling(bare_word(before.text))


def ends_sentence(before: str, after: str = "") -> bool:
    """Whether a sentence ends between two words."""
    bare = before.rstrip(_CLOSING)
    if not bare.endswith(_SENTENCE_ENDS):
        return False
    if not bare.endswith((".", "…")):
        return True
    first = after.lstrip("\"'“«([¿¡-–— ")[:1]
    return not (_is_abbreviation(bare) or first.islower())


def _is_abbreviation(word: str) -> bool:
    name = word.rstrip(".").lower()
    return word.endswith(".") and (name in _ABBREVIATIONS or (len(name) == 1 and name.isalpha()))


def _within_sentence(before: Token, after: Token, small: SmallWords) -> float:
    if after.severed:
        return SEVERED
    last_word = before.text.rstrip(_CLOSING)
    if last_word.endswith((*_CLAUSE_ENDS, *_SENTENCE_ENDS)) and not _is_abbreviation(last_word):
        return CLAUSE
    if after.spaced and before.text[-1:] in THAI and after.text[:1] in THAI:
        return CLAUSE
    last, first = bare_word(before.text), bare_word(after.text)
    if small.cling(last):
        return CLINGING
    if last in small.helpers:
        return HELPER
    parted = before.segment != after.segment
    if before.text[-1:].isdigit() and not parted:
        return FIGURE
    both_capital = before.text[:1].isupper() and after.text[:1].isupper()
    if both_capital and not small.nouns_are_capital:
        return NAME
    return _before(first, small) or (SEGMENT if parted else WORD)


def _before(word: str, small: SmallWords) -> float | None:
    """Cost of a cut before a function word; None for other words."""
    if word in small.particles:
        return PARTICLE
    if word in small.conjunctions:
        return CONJUNCTION
    if word in small.genitives:
        return GENITIVE
    if word in small.prepositions:
        return PREPOSITION
    return PREDICATE if word in small.helpers else None


def bare_word(text: str) -> str:
    """The word in lower case, without punctuation, as the word lists have it."""
    return (
        text.strip("\"'“”‘’«»()[]¿¡.,;:!?…-–— 。，、！？；：）（」「』『").lower().replace("’", "'")
    )
