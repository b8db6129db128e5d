"""The languages Whisper was trained on, and how callers may spell them."""

import re

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason

_CODES = """
af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he
hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne
nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk
ur uz vi yi yo yue zh
"""

WHISPER = frozenset(_CODES.split())
"""Whisper's own codes: most are BCP-47 tags, "jw" is none."""

_TAG = re.compile(r"([a-z]{2,3})([-_][a-z0-9]{1,8})*", re.IGNORECASE)
_OTHER_SPELLINGS = {
    "cmn": "zh",
    "fil": "tl",
    "in": "id",
    "iw": "he",
    "ji": "yi",
    "jv": "jw",
    "nb": "no",
}


def primary(tag: str) -> str:
    """The language of a BCP-47 tag such as "pt-BR", as Whisper spells it."""
    match = _TAG.fullmatch(tag.strip())
    language = match[1].lower() if match else ""
    code = _OTHER_SPELLINGS.get(language, language)
    if code not in WHISPER:
        raise InvalidRequestError(
            f"{tag[:40]!r} is not a language Whisper knows", reason=Reason.LANGUAGE_UNKNOWN
        )
    return code


def tag_of(code: str) -> str:
    """The BCP-47 tag of one of Whisper's codes."""
    return "jv" if code == "jw" else code
