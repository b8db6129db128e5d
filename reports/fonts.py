"""The fonts of the PDF, installed as wheels; the machine's own fonts are not used."""

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

MISSING = "\u25af"
"""Replaces a character that no font has: an upright empty box, which FiraGO has."""
SHAPED = re.compile(
    "[\u0300-\u036f\u0590-\u109f\u1200-\u139f\u1780-\u18af\ufb1d-\ufdff\ufe70-\ufefc]"
)
"""Characters whose form or position depends on their neighbours, or that run right to left."""
_PLAIN = "U+0000-08FF, U+1000-FFFF"
"""All but the scripts from Devanagari to Thai. fpdf2 shapes a run by its first script, so those get
a font of their own, which makes them separate runs."""
RIGHT_TO_LEFT = ("R", "AL")


@dataclass(frozen=True, slots=True)
class Font:
    """A font file."""

    family: str
    style: str
    path: Path
    number: int = 0
    """Its index in a font collection."""
    signs: str | None = None
    """Unicode range to take from it; None: all."""


@contextmanager
def main_fonts() -> Iterator[list[Font]]:
    """FiraGO: Latin, Greek, Cyrillic, Georgian, Arabic, Hebrew, Devanagari, Thai."""
    with TemporaryDirectory(prefix="ytcaption-fonts-") as folder:
        fonts = [
            Font("text", "", _written(folder, "figo"), signs=_PLAIN),
            Font("text", "B", _written(folder, "figbo"), signs=_PLAIN),
            Font("shaped", "", _written(folder, "figo")),
            Font("shaped", "B", _written(folder, "figbo")),
            Font("symbols", "", _written(folder, "symbol2")),
        ]
        yield fonts


def _written(folder: str, key: str) -> Path:
    from pymupdf_fonts import fontbuffers

    path = Path(folder, f"{key}.ttf")
    if not path.exists():
        path.write_bytes(fontbuffers[key]())
    return path


def east_asian_font() -> Font | None:
    """Noto Sans CJK: Chinese, Japanese, Korean; None if its wheel is not installed."""
    if not find_spec("noto_cjk_sans_otc"):
        return None
    from noto_cjk_sans_otc import FONT_PATH

    simplified_chinese = 2
    return Font("east-asian", "", Path(str(FONT_PATH)), simplified_chinese)


def is_right_to_left(text: str) -> bool:
    """Whether the first character with a direction is right to left."""
    for sign in text:
        direction = unicodedata.bidirectional(sign)
        if direction == "L":
            return False
        if direction in RIGHT_TO_LEFT:
            return True
    return False
