"""The languages Whisper was trained on, and how callers may spell them."""

import re

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason

_LANGUAGES = """
af Afrikaans, am Amharic, ar Arabic, as Assamese, az Azerbaijani, ba Bashkir, be Belarusian,
bg Bulgarian, bn Bengali, bo Tibetan, br Breton, bs Bosnian, ca Catalan, cs Czech, cy Welsh,
da Danish, de German, el Greek, en English, es Spanish, et Estonian, eu Basque, fa Persian,
fi Finnish, fo Faroese, fr French, gl Galician, gu Gujarati, ha Hausa, haw Hawaiian, he Hebrew,
hi Hindi, hr Croatian, ht Haitian Creole, hu Hungarian, hy Armenian, id Indonesian, is Icelandic,
it Italian, ja Japanese, jw Javanese, ka Georgian, kk Kazakh, km Khmer, kn Kannada, ko Korean,
la Latin, lb Luxembourgish, ln Lingala, lo Lao, lt Lithuanian, lv Latvian, mg Malagasy, mi Maori,
mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese,
ne Nepali, nl Dutch, nn Norwegian Nynorsk, no Norwegian, oc Occitan, pa Punjabi, pl Polish,
ps Pashto, pt Portuguese, ro Romanian, ru Russian, sa Sanskrit, sd Sindhi, si Sinhala, sk Slovak,
sl Slovenian, sn Shona, so Somali, sq Albanian, sr Serbian, su Sundanese, sv Swedish, sw Swahili,
ta Tamil, te Telugu, tg Tajik, th Thai, tk Turkmen, tl Tagalog, tr Turkish, tt Tatar,
uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, yi Yiddish, yo Yoruba, yue Cantonese, zh Chinese
"""

_NAMES = dict(entry.strip().split(maxsplit=1) for entry in _LANGUAGES.split(","))
"""English names by Whisper's codes."""

WHISPER = frozenset(_NAMES)
"""Whisper's own codes: all BCP-47 tags but "jw"."""

_TAG = re.compile(r"([a-z]{2,3})([-_][a-z0-9]{1,8})*", re.IGNORECASE)
CHINESE, TRADITIONAL_CHINESE = "zh", "zh-Hant"
_TRADITIONAL = frozenset({"hant", "tw", "hk", "mo"})
"""Subtags as in zh-Hant and zh-TW; without one of them the characters are simplified (CLDR)."""
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
            f"{tag[:40]!r} is not a language Whisper supports", reason=Reason.LANGUAGE_UNKNOWN
        )
    return code


def canonical(tag: str) -> str:
    """What of a tag changes the text: the language, and "zh-Hant" for traditional characters."""
    code = primary(tag)
    subtags = tag.strip().lower().replace("_", "-").split("-")
    is_traditional = "hans" not in subtags and not _TRADITIONAL.isdisjoint(subtags)
    return TRADITIONAL_CHINESE if code == CHINESE and is_traditional else code


def name_of(tag: str) -> str:
    """The English name of a tag's language; the tag itself if it is not one of Whisper's."""
    try:
        return _NAMES[primary(tag)]
    except InvalidRequestError:
        return tag


def described(tag: str) -> str:
    """`Portuguese (pt-BR)`; only the tag if the language is unknown."""
    name = name_of(tag)
    return tag if name == tag else f"{name} ({tag})"


def tag_of(code: str) -> str:
    """The BCP-47 tag of one of Whisper's codes."""
    return "jv" if code == "jw" else code
