"""Sets text on PDF pages: fonts, line breaks, characters without a font, page numbers.

The fonts are installed as wheels; the machine's own fonts are not used.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from fpdf import FPDF
from fpdf.enums import WrapMode, XPos, YPos

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
Colour = tuple[int, int, int]
INK: Colour = (27, 31, 36)
DIM: Colour = (89, 99, 110)
LINE: Colour = (209, 217, 224)
LINK: Colour = (7, 87, 186)
MARGIN = 18
FOOT = 18
CACHED_WORDS = 50_000
"""Size of the cache of word widths; speech has few distinct words."""


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


def lines_here(count: int, room: int) -> int:
    """How many of a paragraph's lines go on this page, which has room for `room` lines.

    Avoids widows and orphans: no line stands alone at the foot or head of a page.
    """
    if count <= room:
        return count
    here = min(room, count - 2)
    return here if here > 1 else 0


class Sheets(FPDF):
    """A4 pages with a footer. Fonts for rarer scripts are loaded when they are needed."""

    def __init__(self, fonts: Sequence[Font], footer: str) -> None:
        super().__init__(format="A4")
        self.set_margins(MARGIN, MARGIN, MARGIN)
        self.set_auto_page_break(True, FOOT + 4)
        self.c_margin = 0
        for font in fonts:
            self._add(font)
        self.set_fallback_fonts(["shaped", "symbols"], exact_match=False)
        self.missing = 0
        """Characters shown as a box since the counter was last reset."""
        self._east_asian_asked = False
        self._covered = {sign for key in ("text", "shaped", "symbols") for sign in self._signs(key)}
        self._main = self._signs("text") & self._signs("textB")
        self._widths: dict[tuple[str, float, str], float] = {}
        self._footer = self.shown(footer)

    def footer(self) -> None:
        """The report's title and the page number."""
        self.set_y(-FOOT)
        self.set_draw_color(*LINE)
        self.line(MARGIN, self.y, self.w - MARGIN, self.y)
        self.style(8, DIM)
        self.set_y(-FOOT + 2)
        whole, place = self.epw, f"Page {self.page_no()} of {{nb}}"
        name = next(self._fitting(self._footer, whole - 40), "")
        self.shape(name)
        self.cell(whole - 35, 5, name)
        self.shape("")
        self.cell(35, 5, place, align="R")

    def style(self, size: float, colour: Colour = INK, *, bold: bool = False) -> None:
        """Sets size, colour and weight of the text that follows."""
        self.set_font("text", "B" if bold else "", size)
        self.set_text_color(*colour)

    def shown(self, text: str) -> str:
        """The text with a box for each character no font has; invisible characters are dropped."""
        text = unicodedata.normalize("NFC", text)
        if self._main.issuperset(map(ord, text)):
            return text
        if not self._east_asian_asked and not self._covered.issuperset(map(ord, text)):
            self._get_east_asian()
        return "".join(map(self._shown, text))

    def write_on(self, text: str, leading: float, link: str | int | None = None) -> None:
        """A paragraph from margin to margin, over as many pages as it takes."""
        text = self.shown(text)
        if link is None and self._main.issuperset(map(ord, text)) and not SHAPED.search(text):
            self._write_plainly(text, leading)
        else:
            self._write_carefully(text, leading, link)

    def cells(self, texts: Sequence[str], between: str, leading: float) -> None:
        """Writes short unbroken texts in a row; what does not fit goes on a new line."""
        start, line = self.x, ""
        for text in map(self.shown, texts):
            longer = f"{line}{between}{text}" if line else text
            if line and start + self.get_string_width(longer) > self.w - self.r_margin:
                self.cell(0, leading, line)
                self.ln(leading)
                self.x, line = start, text
            else:
                line = longer
        self.cell(0, leading, line)
        self.ln(leading)

    def _write_plainly(self, text: str, leading: float) -> None:
        # fpdf2 breaks lines character by character: an hour of speech takes 1 s, this takes 0.02 s.
        baseline = leading / 2 + self.font_size * 0.35
        lines = list(self._fitting(text, self.epw))
        while lines:
            room = int((self.page_break_trigger - self.y) / leading)
            here = lines_here(len(lines), room)
            for line in lines[:here]:
                self.text(self.l_margin, self.y + baseline, line)
                self.y += leading
            lines = lines[here:]
            if lines:
                self.add_page()
        self.x = self.l_margin

    def _write_carefully(self, text: str, leading: float, link: str | int | None) -> None:
        self.shape(text)
        spaced = text.count(" ") * 20 > len(text)
        self.multi_cell(
            0,
            leading,
            text,
            align="R" if is_right_to_left(text) else "L",
            link=link or "",
            wrapmode=WrapMode.WORD if spaced else WrapMode.CHAR,
            new_x=XPos.LMARGIN,
            new_y=YPos.NEXT,
            padding=0,
        )
        self.shape("")

    def shape(self, text: str) -> None:
        """Turns text shaping on if this text needs it, else off: it is slow."""
        self.set_text_shaping(bool(SHAPED.search(text)))

    def _fitting(self, text: str, room: float) -> Iterator[str]:
        """Breaks the text into lines no wider than the room."""
        line, used, space = "", 0.0, self._width(" ")
        for word in text.split():
            for part in self._parts(word, room):
                width = self._width(part)
                if line and used + space + width > room:
                    yield line
                    line, used = part, width
                else:
                    used += width + (space if line else 0)
                    line = f"{line} {part}" if line else part
        if line:
            yield line

    def _parts(self, word: str, room: float) -> Iterator[str]:
        """Splits a word that is wider than the room into parts that fit."""
        while self._width(word) > room and len(word) > 1:
            fits = max(1, int(len(word) * room / self._width(word)))
            while fits > 1 and self._width(word[:fits]) > room:
                fits -= 1
            yield word[:fits]
            word = word[fits:]
        yield word

    def _width(self, word: str) -> float:
        key = (word, self.font_size_pt, self.font_style)
        if key not in self._widths:
            if len(self._widths) > CACHED_WORDS:
                self._widths.clear()
            self._widths[key] = self.get_string_width(word)
        return self._widths[key]

    def _add(self, font: Font) -> None:
        self.add_font(
            font.family,
            font.style,
            font.path,
            unicode_range=font.signs,
            collection_font_number=font.number,
        )

    def _signs(self, key: str) -> set[int]:
        return set(self.fonts[key].cmap)  # type: ignore[union-attr]

    def _get_east_asian(self) -> None:
        self._east_asian_asked = True
        if font := east_asian_font():
            self._add(font)
            self.set_fallback_fonts(["shaped", "east-asian", "symbols"], exact_match=False)
            self._covered |= self._signs("east-asian")

    def _shown(self, sign: str) -> str:
        if ord(sign) in self._covered or sign == "\n":
            return sign
        if unicodedata.category(sign) in ("Cf", "Mn") or "\ufe00" <= sign <= "\ufe0f":
            return ""
        self.missing += 1
        return MISSING
