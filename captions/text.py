"""Cleans, joins, measures and splits plain text.

Widths add up: a line is as wide as its tokens.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

UNSPACED = re.compile(r"[\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff9f]")
"""Scripts without spaces between words."""
_SPACE = re.compile(r"[^\S\u00a0\u202f\u2007]+")
ZERO_WIDTH_JOINER = "\u200d"
GOOD_ENDS = "/-_.?&=#、，。"
"""Good places to split after: the slash of an address, the hyphen of a compound."""
NEVER_FIRST = (
    ".,;:!?)]}»”’%、。，．！？：；）」』】〉》・ー…々ゝぁぃぅぇぉっゃゅょァィゥェォッャュョ"
)
NEVER_LAST = "([{«“„¿¡（「『【〈《"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAGS = range(0x1F1E6, 0x1F200)


def clean(text: str) -> str:
    """Text on one line: composed, without control characters, single spaces."""
    composed = unicodedata.normalize("NFC", text)
    if not composed.isprintable():
        composed = "".join(" " if unicodedata.category(c) == "Cc" else c for c in composed)
    return _SPACE.sub(" ", composed).strip()


def needs_space(before: str, after: str) -> bool:
    """Whether a space separates two texts; not in Chinese and Japanese."""
    return not (UNSPACED.match(before[-1:]) or UNSPACED.match(after[:1]))


def run_on(texts: Iterable[str]) -> str:
    """Joins the texts, with spaces where the script has them."""
    pieces: list[str] = []
    for text in filter(None, map(clean, texts)):
        if pieces and needs_space(pieces[-1], text):
            pieces.append(" ")
        pieces.append(text)
    return "".join(pieces)


def width(text: str) -> int:
    """Columns: 1 a letter, 2 a full-width one or an emoji, 0 a mark that sits on another."""
    return len(text) if text.isascii() else sum(map(_columns, text))


@lru_cache(maxsize=8192)
def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc") or ord(character) in _SKIN_TONES:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def parts(text: str, limit: int) -> list[str]:
    """Splits text that is too wide for a line, never between a letter and its marks."""
    found = []
    while width(text) > limit:
        end = _last_cut(text, limit)
        found.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [part for part in [*found, text] if part]


def _last_cut(text: str, limit: int) -> int:
    """The last good place to split if it is not too early, else the last possible one."""
    used = good = possible = end = 0
    for end, character in enumerate(text):
        if end and _separable(text, end):
            possible = end
            good = end if text[end - 1] in GOOD_ENDS else good
        used += _columns(character)
        if used > limit:
            break
    if 2 * width(text[:good]) >= limit:
        return good
    return possible or max(end, 1)


def _separable(text: str, place: int) -> bool:
    before, after = text[place - 1], text[place]
    if _columns(after) == 0 or ZERO_WIDTH_JOINER in (before, after):
        return False
    if after in NEVER_FIRST or before in NEVER_LAST:
        return False
    return not (ord(before) in _FLAGS and ord(after) in _FLAGS and _flags_before(text, place) % 2)


def _flags_before(text: str, place: int) -> int:
    count = 0
    while count < place and ord(text[place - 1 - count]) in _FLAGS:
        count += 1
    return count
