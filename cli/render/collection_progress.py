"""Progress view of a collection: live bars on a terminal, periodic lines elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from time import monotonic
from typing import TypeAlias

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cli.render.bars import LINE_SECONDS
from cli.render.collection_state import CollectionProjection, count_summary
from cli.render.messages import collection_state, member_title
from cli.render.screen import Screen
from cli.render.text import for_terminal, short_clock
from ytcaption.v1 import collection_pb2 as pb

REDRAWS_PER_SECOND = 4
MAX_ROWS = 100
# Headline, counts, overall bar, "and more", and space for the line that was just printed above.
OTHER_LINES = 6


Row: TypeAlias = tuple[int, str, float | None]
"""A member under way: its number, title and progress, None while that is unknown."""


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """What is shown at one moment; immutable, because rich draws it in its own thread."""

    title: str
    state: str
    counts: Mapping[str, int]
    ended: int
    found: int
    listing: str
    deadline: datetime | None
    rows: Sequence[Row]
    under_way: int

    def time_left(self) -> str:
        """The time until the deadline."""
        if self.deadline is None:
            return ""
        left = self.deadline - datetime.now(UTC)
        return f"{short_clock(left)} left" if left > timedelta(0) else "past its deadline"

    def summary(self) -> str:
        """The whole snapshot in one line."""
        return _joined(count_summary(self.counts), self.listing, self.time_left())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _line(_joined(self.title, self.state, self.time_left()))
        yield _line(count_summary(self.counts))
        yield self._overall()
        shown = self.rows[: max(1, console.size.height - OTHER_LINES)]
        if shown:
            yield _bars(shown)
        if self.under_way > len(shown):
            yield _line(f"     and {self.under_way - len(shown)} more under way")

    def _overall(self) -> Table:
        row = Table.grid(padding=(0, 1))
        total = self.found or None
        bar = ProgressBar(total=total, completed=self.ended, width=30, pulse=not total)
        listing = f" so far, {self.listing}" if self.listing else ""
        row.add_row(bar, _line(f"{self.ended} of {self.found}{listing}"))
        return row


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _line(text: str) -> Text:
    return Text(for_terminal(text), no_wrap=True, overflow="ellipsis")


def _bars(rows: Sequence[Row]) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(justify="right", min_width=4, no_wrap=True)
    table.add_column(min_width=20)
    table.add_column(justify="right", min_width=4, no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for number, title, progress in rows:
        bar = ProgressBar(total=1, completed=progress or 0, width=20)
        percent = "" if progress is None else f"{progress:.0%}"
        table.add_row(str(number), bar, percent, Text(for_terminal(title)))
    return table


def snapshot_of(state: CollectionProjection) -> ProgressSnapshot:
    """Takes rows only of members under way: a collection may have a thousand members."""
    collection = state.collection
    rows = [
        (number, member_title(state.members[number]), progress)
        for number, progress in islice(state.under_way.items(), MAX_ROWS)
    ]
    ends = collection.HasField("deadline") and not collection.HasField("end_time")
    return ProgressSnapshot(
        title=collection.title or collection.collection_id,
        state=collection_state(collection),
        counts=state.counts,
        ended=state.ended,
        found=len(state.members),
        listing=_listing(collection),
        deadline=collection.deadline.ToDatetime(UTC) if ends else None,
        rows=sorted(rows),
        under_way=len(state.under_way),
    )


def _listing(collection: pb.Collection) -> str:
    if collection.discovery_complete or not collection.sources:
        return ""
    if len(collection.sources) == 1:
        return "listing"
    done = sum(one.complete for one in collection.listings)
    return f"listing, {done} of {len(collection.sources)} sources done"


class LiveProgressView:
    """Counts and the bars of members under way, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._snapshot: ProgressSnapshot | Text = Text("")
        self._live = Live(
            console=console,
            get_renderable=lambda: self._snapshot,
            refresh_per_second=REDRAWS_PER_SECOND,
            # stdout may be a pipe with its own reader.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def show(self, state: CollectionProjection) -> None:
        """Drawn at the next refresh."""
        self._snapshot = snapshot_of(state)

    def close(self) -> None:
        """Leaves the last snapshot on the screen."""
        self._live.stop()


class PlainProgressView:
    """At most one line every ten seconds, for logs and pipes."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], float] = monotonic) -> None:
        self._write = write
        self._now = now
        self._written_at = now()
        self._counts: Mapping[str, int] = {}

    def show(self, state: CollectionProjection) -> None:
        """Writes a line if the last one is old enough and counts have changed since."""
        if self._now() - self._written_at >= LINE_SECONDS and state.counts != self._counts:
            self._written_at, self._counts = self._now(), state.counts
            self._write(snapshot_of(state).summary())

    def close(self) -> None:
        """Nothing is open."""


def progress_view_for(screen: Screen) -> LiveProgressView | PlainProgressView:
    """A live view if stderr is a terminal, else lines."""
    return LiveProgressView(screen.console) if screen.lively else PlainProgressView(screen.line)
