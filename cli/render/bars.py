"""Progress of a job's stages: live bars on a terminal, periodic lines elsewhere."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from cli.render.screen import Screen
from cli.render.text import for_terminal, short_clock, size
from mesh.messages import enum_names
from mesh.preparation import in_words
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb

LINE_SECONDS = 10.0
UPLOAD = "upload"
LABELS = {
    job_pb.Stage.Value(f"STAGE_{name.upper()}"): name
    for name in enum_names(job_pb.Stage.DESCRIPTOR)
}


@dataclass(frozen=True, slots=True)
class Figure:
    """Progress of one stage or upload, in its own unit."""

    label: str
    done: float
    total: float | None
    amount: str


def figure(status: job_pb.StageStatus) -> Figure | None:
    """The progress of a stage; None for a stage this version does not know."""
    label = LABELS.get(status.stage)
    if label is None:
        return None
    if status.state == job_pb.STAGE_STATE_SKIPPED:
        return Figure(label, 1, 1, "skipped")
    if status.HasField("preparing"):
        return _preparation(label, status.preparing)
    match status.progress.WhichOneof("amount"):
        case "bytes":
            amount = status.progress.bytes
            total = amount.total_bytes if amount.HasField("total_bytes") else None
            speed = f", {size(amount.bytes_per_second)}/s" if amount.bytes_per_second else ""
            of = "" if total is None else f" of {size(total)}"
            text = f"{size(amount.done_bytes)}{of}{speed}"
            return Figure(label, amount.done_bytes, total, text)
        case "media":
            return _media_time(label, status.progress.media)
        case _:
            ended = status.state == job_pb.STAGE_STATE_COMPLETED
            return Figure(label, 1, 1, "done") if ended else Figure(label, 0, None, "")


def _preparation(label: str, preparing: media_pb.ModelPreparation) -> Figure:
    fetched = preparing.fetched
    total = fetched.total_bytes if fetched.HasField("total_bytes") else None
    return Figure(label, fetched.done_bytes, total, for_terminal(in_words(preparing)))


def _media_time(label: str, progress: media_pb.MediaProgress) -> Figure:
    done = progress.done.ToTimedelta()
    if not progress.HasField("total"):
        return Figure(label, done.total_seconds(), None, short_clock(done))
    total = progress.total.ToTimedelta()
    amount = f"{short_clock(done)} of {short_clock(total)}"
    return Figure(label, done.total_seconds(), total.total_seconds(), amount)


class LiveBars:
    """One bar for each label, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<13}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            console=console,
            # stdout may be a pipe with its own reader.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._tasks: dict[str, TaskID] = {}
        self._progress.start()

    def show(self, figures: Iterable[Figure]) -> None:
        """Draws the newest figures; other labels keep their last one."""
        for one in figures:
            if one.label not in self._tasks:
                self._tasks[one.label] = self._progress.add_task(one.label, total=None, amount="")
            self._progress.update(
                self._tasks[one.label], completed=one.done, total=one.total, amount=one.amount
            )

    def close(self) -> None:
        """Leaves the last bars on the screen."""
        self._progress.stop()


class PlainLines:
    """At most one line every ten seconds, for logs and pipes."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], float] = monotonic) -> None:
        self._write = write
        self._now = now
        self._written_at = now()
        self._figures: dict[str, Figure] = {}

    def show(self, figures: Iterable[Figure]) -> None:
        """Writes what moved since the last line, if that is old enough."""
        self._figures.update({one.label: one for one in figures})
        if self._now() - self._written_at >= LINE_SECONDS:
            parts = [f"{one.label} {one.amount}" for one in self._figures.values() if one.amount]
            if parts:
                self._written_at = self._now()
                self._write(" · ".join(parts))
            # Figures that do not move any more are not repeated.
            self._figures.clear()

    def close(self) -> None:
        """Nothing is open."""


def bars_for(screen: Screen) -> LiveBars | PlainLines:
    """Live bars if stderr is a terminal, else lines."""
    return LiveBars(screen.console) if screen.lively else PlainLines(screen.line)
