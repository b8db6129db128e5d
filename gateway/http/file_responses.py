"""Headers of file responses: byte ranges (RFC 9110) and Content-Disposition (RFC 6266)."""

import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import quote

MAX_NAME = 150
FORBIDDEN = frozenset('\\/:*?"<>|;%')
INVISIBLE = ("C", "Zl", "Zp")
"""Unicode categories: controls and bidirectional marks, line and paragraph separators."""

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of a file from the first to the last, both included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.last - self.first + 1


class RangeNotSatisfiableError(Exception):
    """The requested range lies outside the file."""


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """Returns the one range a Range header asks for; None means the whole file.

    A header that is malformed or asks for several ranges is ignored, as RFC 9110 allows.
    """
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or found[0] == "bytes=-":
        return None
    if not found[1]:
        return _suffix_range(int(found[2]), size)
    first = int(found[1])
    last = int(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    if first >= size:
        raise RangeNotSatisfiableError
    return ByteRange(first, min(last, size - 1))


def _suffix_range(count: int, size: int) -> ByteRange:
    if not count or not size:
        raise RangeNotSatisfiableError
    return ByteRange(max(0, size - count), size - 1)


def safe_file_name(name: str, fallback: str) -> str:
    """Removes what could break out of a header, mislead a shell, or deceive a reader."""
    visible = "".join(
        "_" if character in FORBIDDEN else character
        for character in name
        if not unicodedata.category(character).startswith(INVISIBLE)
    )
    stem, dot, suffix = visible.strip(" .").rpartition(".")
    if not dot:
        return suffix[:MAX_NAME] or fallback
    return f"{stem[:MAX_NAME].strip()}.{suffix[:16]}" if stem.strip(" .") else fallback


def content_disposition(name: str, fallback: str, *, attachment: bool) -> str:
    """Returns the header with an ASCII name, and a UTF-8 name where the two differ."""
    name = safe_file_name(name, fallback)
    kind = "attachment" if attachment else "inline"
    plain = "".join(sign if sign.isascii() and sign.isprintable() else "_" for sign in name)
    encoded = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'{kind}; filename="{plain}"{encoded}'
