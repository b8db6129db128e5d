"""The script of Chinese text: simplified or traditional characters, by the language tag.

Whisper writes either, as its training data did, and changes from one phrase to the next.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

from mesh.languages import CHINESE, TRADITIONAL_CHINESE, canonical, primary
from transcriber.decoder import Phrase


def is_traditional(tags: Iterable[str]) -> bool:
    """Whether the first Chinese tag asks for traditional characters."""
    chinese = (canonical(tag) for tag in tags if tag and primary(tag) == CHINESE)
    return next(chinese, CHINESE) == TRADITIONAL_CHINESE


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
