"""BCP-47 tags on the outside, Whisper's own codes on the inside."""

import re
from collections.abc import Iterable

from faster_whisper.tokenizer import _LANGUAGE_CODES

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason

ALL: frozenset[str] = frozenset(_LANGUAGE_CODES)
"""Every code any Whisper model knows."""

NEWER = frozenset({"yue"})
"""Codes only large-v3 and its relatives know."""

_TAG = re.compile(r"([A-Za-z]{2,3})([-_][A-Za-z0-9]{1,8})*")
_WHISPER_CODES = {"jv": "jw", "nb": "no", "fil": "tl", "cmn": "zh", "iw": "he", "in": "id"}
_TAGS = {"jw": "jv"}


def to_code(tag: str, known: frozenset[str]) -> str:
    """Whisper's code for a tag such as "pt-BR"; refused unless it is among the known."""
    match = _TAG.fullmatch(tag)
    primary = match[1].lower() if match else ""
    code = _WHISPER_CODES.get(primary, primary)
    if code not in ALL:
        raise InvalidRequestError(
            f"{tag[:40]!r} names no language Whisper knows", reason=Reason.LANGUAGE_UNKNOWN
        )
    if code not in known:
        heard = ", ".join(sorted(known)) if len(known) < 5 else f"{len(known)} others"
        raise InvalidRequestError(
            f"the model does not hear {tag!r}, only {heard}", reason=Reason.LANGUAGE_UNSUPPORTED
        )
    return code


def to_tag(code: str) -> str:
    """The BCP-47 tag of one of Whisper's codes."""
    return _TAGS.get(code, code)


def to_tags(codes: Iterable[str]) -> tuple[str, ...]:
    """Tags in alphabetical order."""
    return tuple(sorted(map(to_tag, codes)))
