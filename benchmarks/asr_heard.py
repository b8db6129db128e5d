"""What a contestant made of a recording, and when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import psutil

from benchmarks.processes import memory_of
from mesh.tasks import stop

LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text, and the moment it was there."""

    start: float
    end: float
    text: str
    at: float
    """Wall seconds since the recording was handed over."""
    confidence: float | None = None
    """None if the contestant gives none."""
    words: list[tuple[str, float]] = field(default_factory=list)
    """Each word with its own confidence, if asked for."""


@dataclass(slots=True)
class Heard:
    """One recording from its first sample to its last word."""

    wall_seconds: float = 0.0
    pieces: list[Piece] = field(default_factory=list)
    ended_at: float = 0.0
    """Media seconds the contestant says it has heard."""
    peak_bytes: int = 0
    language: str = ""
    """As the contestant names it; empty if it detected none."""

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(piece.text.strip() for piece in self.pieces)

    @property
    def first_seconds(self) -> float | None:
        """When the first text was there; None if nothing was heard."""
        return self.pieces[0].at if self.pieces else None

    @property
    def progress(self) -> list[tuple[float, float]]:
        """Wall seconds, and the media seconds that had text by then."""
        return [(0.0, 0.0), *((piece.at, piece.end) for piece in self.pieces)]


@asynccontextmanager
async def peak_noted(heard: Heard, pid: int) -> AsyncIterator[None]:
    """Notes the most memory a process and all below it have while the block runs."""

    async def look() -> None:
        with suppress(psutil.NoSuchProcess):  # it ended
            process = psutil.Process(pid)
            while True:
                heard.peak_bytes = max(heard.peak_bytes, memory_of(process).with_children)
                await asyncio.sleep(LOOK_SECONDS)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        await stop(looking)
