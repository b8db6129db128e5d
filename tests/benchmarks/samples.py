"""A recording, and what was heard of it."""

from pathlib import Path

from benchmarks.asr_figures import Row
from benchmarks.asr_heard import Heard, Piece
from benchmarks.asr_recordings import Recording

SAMPLE = Path(__file__).parent.parent / "data" / "sample.ogg"


def hearing(wall: float, text: str = "blue sky", first: float = 1.0, peak: int = 1) -> Heard:
    return Heard(wall, [Piece(0.0, 1.0, text, first)], ended_at=10.0, peak_bytes=peak)


def recording(name: str = "a", reference: str = "blue sky") -> Recording:
    return Recording(name, Path(name), 10.0, reference, "en")


def row_of(way: str, *walls: float, text: str = "blue sky", first: float = 1.0) -> Row:
    return Row.of(recording(), way, [hearing(wall, text, first) for wall in walls])
