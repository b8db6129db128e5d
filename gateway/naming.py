"""File names for people, from text nobody can trust."""

import unicodedata
from urllib.parse import quote

MAX_NAME = 150
FORBIDDEN = frozenset('\\/:*?"<>|;%')
INVISIBLE = ("C", "Zl", "Zp")
"""Controls, line breaks, and the marks that turn text around."""


def safe_name(name: str, fallback: str) -> str:
    """Nothing a header, a shell or a reader could be deceived by."""
    kept = "".join(
        "_" if sign in FORBIDDEN else sign
        for sign in name
        if not unicodedata.category(sign).startswith(INVISIBLE)
    )
    stem, dot, suffix = kept.strip(" .").rpartition(".")
    if not dot:
        return suffix[:MAX_NAME] or fallback
    return f"{stem[:MAX_NAME].strip()}.{suffix[:16]}" if stem.strip(" .") else fallback


def disposition(name: str, fallback: str, *, attachment: bool) -> str:
    """Content-Disposition as RFC 6266 has it: one name for old readers, one for the others."""
    name = safe_name(name, fallback)
    kind = "attachment" if attachment else "inline"
    plain = "".join(sign if sign.isascii() and sign.isprintable() else "_" for sign in name)
    encoded = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'{kind}; filename="{plain}"{encoded}'
