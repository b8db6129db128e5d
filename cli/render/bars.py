"""How far the stages are: bars on a terminal, now and then a line elsewhere."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from cli.screen import Screen
from cli.text import for_terminal, short_clock, size
from mesh.preparation import in_words
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb

LINE_SECONDS = 10.0
UPLOAD = "upload"
LABELS = {
    job_pb.STAGE_DOWNLOAD: "download",
    job_pb.STAGE_NORMALIZATION: "normalization",
    job_pb.STAGE_TRANSCRIPTION: "transcription",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """How far one thing is, in its own unit."""

    label: str
    done: float
    total: float | None
    amount: str


def figure(status: job_pb.StageStatus) -> Figure | None:
    """None for a stage this version does not know."""
    label = LABELS.get(status.stage)
    if label is None:
        return None
    if status.state == job_pb.STAGE_STATE_SKIPPED:
        return Figure(label, 1, 1, "skipped")
    if status.HasField("preparing"):
        return _prepared(label, status.preparing)
    match status.progress.WhichOneof("amount"):
        case "bytes":
            amount = status.progress.bytes
            total = amount.total_bytes if amount.HasField("total_bytes") else None
            speed = f", {size(amount.bytes_per_second)}/s" if amount.bytes_per_second else ""
            return _counted(label, amount.done_bytes, total, speed)
        case "media":
            return _timed(label, status.progress.media)
        case _:
            ended = status.state == job_pb.STAGE_STATE_COMPLETED
            return Figure(label, 1, 1, "done") if ended else Figure(label, 0, None, "")


def _prepared(label: str, preparing: media_pb.ModelPreparation) -> Figure:
    fetched = preparing.fetched
    total = fetched.total_bytes if fetched.HasField("total_bytes") else None
    return Figure(label, fetched.done_bytes, total, for_terminal(in_words(preparing)))


def _counted(label: str, done: int, total: int | None, speed: str) -> Figure:
    of = "" if total is None else f" of {size(total)}"
    return Figure(label, done, total, f"{size(done)}{of}{speed}")


def _timed(label: str, progress: media_pb.MediaProgress) -> Figure:
    done = progress.done.ToTimedelta()
    if not progress.HasField("total"):
        return Figure(label, done.total_seconds(), None, short_clock(done))
    total = progress.total.ToTimedelta()
    amount = f"{short_clock(done)} of {short_clock(total)}"
    return Figure(label, done.total_seconds(), total.total_seconds(), amount)


class Bars(Protocol):
    """Shows figures."""

    def show(self, figures: Iterable[Figure]) -> None:
        """The newest figures; those not named stay as they are."""

    def close(self) -> None:
        """Nothing moves any more."""


class LiveBars:
    """One bar for each thing, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<13}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            console=console,
            # stdout may be a pipe, and then belongs to whoever reads it.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._tasks: dict[str, TaskID] = {}
        self._progress.start()

    def show(self, figures: Iterable[Figure]) -> None:
        """Draws them."""
        for one in figures:
            if one.label not in self._tasks:
                self._tasks[one.label] = self._progress.add_task(one.label, total=None, amount="")
            self._progress.update(
                self._tasks[one.label], completed=one.done, total=one.total, amount=one.amount
            )

    def close(self) -> None:
        """Leaves the last picture standing."""
        self._progress.stop()


class PlainLines:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = monotonic) -> None:
        self._say = say
        self._now = now
        self._said_at = now()
        self._figures: dict[str, Figure] = {}

    def show(self, figures: Iterable[Figure]) -> None:
        """Says what is new if the last line is old enough."""
        self._figures.update({one.label: one for one in figures})
        if self._now() - self._said_at >= LINE_SECONDS:
            parts = [f"{one.label} {one.amount}" for one in self._figures.values() if one.amount]
            if parts:
                self._said_at = self._now()
                self._say(" · ".join(parts))
            # What does not move any more is not said again.
            self._figures.clear()

    def close(self) -> None:
        """Nothing is open."""


def bars_for(screen: Screen) -> Bars:
    """What suits the place stderr leads to."""
    return LiveBars(screen.console) if screen.lively else PlainLines(screen.line)
