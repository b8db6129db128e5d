"""Untrusted text, made safe for a terminal, a file name and a line of JSON."""

import json
import re
import unicodedata
from datetime import timedelta
from typing import Any

# Control characters steer the terminal; bidi controls and separators disguise the order of text.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
BLANKS = re.compile(r"[ \t\r\n\f\v]+")
FORBIDDEN_IN_NAMES = re.compile(r'[<>:"/\\|?*]')

MAX_NAME_CHARACTERS = 120
# File systems allow 255 bytes; an extension and a temporary suffix must fit too.
MAX_NAME_BYTES = 200


def for_terminal(text: str) -> str:
    """Replaces control characters and folds white space: one line, safe to print."""
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", BLANKS.sub(" ", text)).strip()


def lines_for_terminal(text: str) -> str:
    """Like `for_terminal`, but keeps line ends."""
    return "\n".join(for_terminal(line) for line in text.splitlines())


def to_json(value: Any) -> str:
    """One line of JSON; control characters are escaped, not lost."""
    line = json.dumps(value, ensure_ascii=False)
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def file_stem(title: str, otherwise: str) -> str:
    """A safe file name without extension; `otherwise` if nothing usable is left."""
    text = unicodedata.normalize("NFC", title)
    text = FORBIDDEN_IN_NAMES.sub("_", UNSAFE.sub(" ", text))
    text = BLANKS.sub(" ", text).lstrip(" .-")[:MAX_NAME_CHARACTERS]
    # A character cut in half at the end is dropped.
    text = text.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    return text.rstrip(" .") or otherwise


def clock(offset: timedelta) -> str:
    """00:00:04.200, as caption files write it."""
    milliseconds = max(0, round(offset / timedelta(milliseconds=1)))
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}"


def short_clock(offset: timedelta) -> str:
    """4:05 or 1:02:03, for bars."""
    minutes, seconds = divmod(int(offset.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def size(count: float) -> str:
    """1.2 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
