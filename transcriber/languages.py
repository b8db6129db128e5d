"""Which languages a model hears: BCP-47 tags on the outside, Whisper's codes on the inside."""

from collections.abc import Iterable

from mesh.errors import InvalidRequestError
from mesh.languages import primary, tag_of
from mesh.reasons import Reason

NEWER = frozenset({"yue"})
"""Codes only large-v3 and its relatives know."""


def to_code(tag: str, known: frozenset[str]) -> str:
    """Whisper's code for a tag such as "pt-BR"; refused unless it is among the known."""
    code = primary(tag)
    if code not in known:
        heard = ", ".join(sorted(known)) if len(known) < 5 else f"{len(known)} others"
        raise InvalidRequestError(
            f"the model does not hear {tag!r}, only {heard}", reason=Reason.LANGUAGE_UNSUPPORTED
        )
    return code


def to_tags(codes: Iterable[str]) -> tuple[str, ...]:
    """Tags in alphabetical order."""
    return tuple(sorted(map(tag_of, codes)))
