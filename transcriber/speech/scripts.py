"""The script of Chinese text: simplified or traditional characters, by the language tag.

Whisper writes either, as its training data did, and changes from one phrase to the next.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

from mesh.languages import primary
from transcriber.decoder import Phrase

CHINESE = "zh"
TRADITIONAL = frozenset({"hant", "tw", "hk", "mo"})
"""Subtags as in zh-Hant and zh-TW; without one of them the characters are simplified (CLDR)."""


def is_traditional(tags: Iterable[str]) -> bool:
    """Whether the first Chinese tag asks for traditional characters."""
    chinese = (tag for tag in tags if tag and primary(tag) == CHINESE)
    subtags = next(chinese, "").lower().replace("_", "-").split("-")
    return "hans" not in subtags and not TRADITIONAL.isdisjoint(subtags)


def in_script(phrase: Phrase, *, traditional: bool) -> Phrase:
    """The phrase and its words in one script; the times stay."""
    convert = _converter("s2t" if traditional else "t2s")
    words = (replace(word, text=convert(word.text)) for word in phrase.words)
    return replace(phrase, text=convert(phrase.text), words=tuple(words))


@cache
def _converter(config: str) -> Callable[[str], str]:
    # Loaded for Chinese only.
    from opencc import OpenCC

    convert: Callable[[str], str] = OpenCC(config).convert
    return convert
