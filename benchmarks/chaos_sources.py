"""Short spoken recordings, cut from the test data; no two jobs get the same bytes."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

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


def _ffmpeg(*arguments: str | Path) -> None:
    command = [get_ffmpeg_exe(), "-v", "error", "-nostdin", "-y", *map(str, arguments)]
    subprocess.run(command, check=True, timeout=60)
