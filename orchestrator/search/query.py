"""What a caller searches for, read from the text of the query."""

import re
from dataclasses import dataclass
from itertools import pairwise

from mesh.errors import InvalidRequestError
from orchestrator.search.words import MAX_WORD, folded, normalized, runs

MAX_CHARACTERS = 500
MAX_TERMS = 32
MIN_PREFIX = 2
"""Characters of the beginning of a word: shorter ones would be in every passage."""

_PARTS = re.compile(r'(?P<minus>(?<!\S)[-−])?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»「」『』", '"'))


@dataclass(frozen=True, slots=True)
class Term:
    """Words one after the other; the last may be the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False
    width: int = 0
    """Characters of the last word that match, if it stands for fewer than the indexed word has."""

    @property
    def expression(self) -> str:
        """The term for FTS5; words hold neither quotation marks nor any other ASCII sign."""
        return f'"{" ".join(self.words)}"' + ("*" if self.prefix else "")


@dataclass(frozen=True, slots=True)
class Query:
    """Terms that all have to be there, and others of which each excludes."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...] = ()

    @property
    def expression(self) -> str:
        """The query for FTS5."""
        wanted = " AND ".join(term.expression for term in self.wanted)
        if not self.unwanted:
            return wanted
        return f"({wanted}) NOT ({' OR '.join(term.expression for term in self.unwanted)})"


def parse(text: str) -> Query:
    """The query a caller wrote; InvalidRequestError if it finds nothing or is too long."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidRequestError(f"query is over {MAX_CHARACTERS} characters")
    wanted: list[Term] = []
    unwanted: list[Term] = []
    for part in _PARTS.finditer(normalized(text).translate(_QUOTES)):
        if term := _term(part["phrase"] if part["word"] is None else part["word"]):
            (unwanted if part["minus"] else wanted).append(term)
    if not wanted:
        raise InvalidRequestError("query names no word to find")
    if len(wanted) + len(unwanted) > MAX_TERMS:
        raise InvalidRequestError(f"query has over {MAX_TERMS} words and phrases")
    return Query(tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(unwanted)))


def _term(text: str) -> Term | None:
    """The words of a part as they are indexed; None if it has none."""
    cut, prefix = text.removesuffix("*"), text.endswith("*")
    found: list[str] = []
    parts = list(runs(cut))
    for place, run in enumerate(parts):
        last = place + 1 == len(parts)
        if not run.unspaced:
            found += [word] if (word := folded(run.text)[:MAX_WORD]) else []
            continue
        chars = [folded(char) or char for char in run.text]
        found += [first + second for first, second in pairwise(chars)]
        if not last:
            found.append(chars[-1])
        elif len(chars) == 1:  # the beginning of a pair
            return Term((*found, chars[0]), prefix=True, width=1)
    if not found:
        return None
    if parts[-1].unspaced:  # any part of a sentence is found, so that its beginning is, too
        return Term(tuple(found))
    if prefix and len(found[-1]) < MIN_PREFIX:
        raise InvalidRequestError(f"{text!r}: a beginning has at least {MIN_PREFIX} characters")
    return Term(tuple(found), prefix=prefix)
