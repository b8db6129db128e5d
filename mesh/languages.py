"""The languages Whisper was trained on, and how callers may spell them."""

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason

_CODES = """
af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he
hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne
nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk
ur uz vi yi yo yue zh
"""

WHISPER = frozenset(_CODES.split())

_OTHER_SPELLINGS = {"jv": "jw", "iw": "he", "in": "id", "ji": "yi", "nb": "no", "fil": "tl"}


def primary(tag: str) -> str:
    """The language of a BCP-47 tag such as "pt-BR", as Whisper spells it."""
    language = tag.strip().lower().replace("_", "-").partition("-")[0]
    language = _OTHER_SPELLINGS.get(language, language)
    if language not in WHISPER:
        raise InvalidRequestError(
            f"{tag[:40]!r} is not a language we know", reason=Reason.LANGUAGE_UNKNOWN
        )
    return language
