"""Cleans and joins plain text."""

import re
import unicodedata
from collections.abc import Iterable

UNSPACED = re.compile(r"[\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff9f]")
"""Scripts without spaces between words."""
_SPACE = re.compile(r"[^\S\u00a0\u202f\u2007]+")


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
