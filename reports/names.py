"""File names that are safe on every system."""

import re
import unicodedata

from reports.words import on_one_line

MAX_BYTES = 120
"""In UTF-8, without number and suffix: most systems allow 255."""
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f%~$`]')
"""Characters that Windows forbids, or that a shell or a path interprets."""


def safe(text: str, limit: int = MAX_BYTES) -> str:
    """The text as part of a file name; may be empty."""
    kept = _FORBIDDEN.sub("_", unicodedata.normalize("NFC", on_one_line(text)))
    kept = "".join(sign if sign.isprintable() else "_" for sign in kept)
    cut = kept.encode()[:limit].decode(errors="ignore")
    # On Windows a name must not end with a dot or space; elsewhere a leading dot hides the file.
    return cut.strip(" .")


def numbered(number: int, total: int, title: str, suffix: str, language: str = "") -> str:
    """`001 Title.srt`. The number makes it unique and avoids reserved names like CON.

    A translation is `001 Title.en.srt`: players find both, and know which is in which language.
    """
    width = max(3, len(str(total)))
    tag = f".{safe(language)}" if language else ""
    return f"{f'{number:0{width}} {safe(title)}'.rstrip()}{tag}.{suffix}"
