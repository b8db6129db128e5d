"""Short spoken recordings, cut from the test data; no two jobs get the same bytes."""

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from xml.sax.saxutils import quoteattr

from imageio_ffmpeg import get_ffmpeg_exe

DATA = Path(__file__).parent.parent / "tests" / "data"


@dataclass(frozen=True, slots=True)
class Cut:
    """A stretch of a recording."""

    name: str
    file: str
    begin: float = 0
    seconds: float = 3600


CUTS = (
    Cut("short", "short.ogg"),
    Cut("portuguese", "portuguese.ogg"),
    Cut("sample", "sample.ogg"),
    Cut("sample-begin", "sample.ogg", 0, 11),
    Cut("sample-middle", "sample.ogg", 7, 10),
    Cut("sample-end", "sample.ogg", 14),
    Cut("portuguese-begin", "portuguese.ogg", 0, 4),
)


def make_cut(cut: Cut, folder: Path) -> Path:
    """Writes the cut as a file of its own."""
    path = folder / f"{cut.name}.ogg"
    stretch = ("-ss", str(cut.begin), "-t", str(cut.seconds), "-i", str(DATA / cut.file))
    _ffmpeg(*stretch, "-c:a", "libopus", "-b:a", "24000", path)
    return path


def make_copy(base: Path, folder: Path, number: int) -> Path:
    """The same audio in other bytes, so that no cache can answer in place of the mesh."""
    path = folder / f"{base.stem}-{number:05d}.ogg"
    _ffmpeg("-i", base, "-c", "copy", "-metadata", f"comment={number:05d}", path)
    return path


def make_copies(bases: Sequence[Path], folder: Path, first: int, count: int) -> list[Path]:
    """So many, of each in turn."""
    numbers = range(first, first + count)
    return [
        make_copy(base, folder, number) for number, base in zip(numbers, cycle(bases), strict=False)
    ]


def cut_of(file_name: str) -> str:
    """The name of the cut a copy was made of."""
    return file_name.rpartition("-")[0]


def make_feed(addresses: Iterable[str], path: Path) -> None:
    """A page that lists recordings, as podcasts do."""
    items = "".join(
        f'<item><title>Talk</title><enclosure url={quoteattr(address)} type="audio/ogg"/></item>'
        for address in addresses
    )
    rss = f'<?xml version="1.0"?><rss version="2.0"><channel>{items}</channel></rss>'
    path.write_text(rss, encoding="utf-8")


def _ffmpeg(*arguments: str | Path) -> None:
    command = [get_ffmpeg_exe(), "-v", "error", "-nostdin", "-y", *map(str, arguments)]
    subprocess.run(command, check=True, timeout=60)
