"""How a collection is doing: bars on a terminal, now and then a line elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from time import monotonic
from typing import Protocol

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cli.bars import LINE_SECONDS
from cli.roster import Roster, collection_state, in_words
from cli.screen import Screen
from cli.text import for_terminal, short_clock
from ytcaption.v1 import collection_pb2 as pb

REDRAWS_A_SECOND = 4
MOST_ROWS = 100
# Headline, counts, overall bar, "and more", and room for the line above that just moved up.
OTHER_LINES = 6


@dataclass(frozen=True, slots=True)
class Row:
    """One member somebody hears now."""

    number: int
    name: str
    share: float | None


@dataclass(frozen=True, slots=True)
class Picture:
    """What is shown at one moment. Never changes: a thread of its own draws it."""

    name: str
    state: str
    counts: Mapping[str, int]
    ended: int
    found: int
    listing: str
    deadline: datetime | None
    rows: Sequence[Row]
    under_way: int

    def left(self) -> str:
        """How long until the deadline."""
        if self.deadline is None:
            return ""
        left = self.deadline - datetime.now(UTC)
        return f"{short_clock(left)} left" if left > timedelta(0) else "past its deadline"

    def summary(self) -> str:
        """All of it in one line."""
        parts = (in_words(self.counts), self.listing, self.left())
        return " · ".join(part for part in parts if part)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = (self.name, self.state, self.left())
        yield _line(" · ".join(part for part in parts if part))
        yield _line(in_words(self.counts))
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


def _line(text: str) -> Text:
    return Text(for_terminal(text), no_wrap=True, overflow="ellipsis")


def _bars(rows: Sequence[Row]) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(justify="right", min_width=4, no_wrap=True)
    table.add_column(min_width=20)
    table.add_column(justify="right", min_width=4, no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        share = row.share
        bar = ProgressBar(total=1, completed=share or 0, width=20)
        percent = "" if share is None else f"{share:.0%}"
        table.add_row(str(row.number), bar, percent, Text(for_terminal(row.name)))
    return table


def picture_of(roster: Roster) -> Picture:
    """Of a thousand members only those that move."""
    collection = roster.collection
    rows = [
        Row(number, name_of(roster.members[number]), share)
        for number, share in islice(roster.under_way.items(), MOST_ROWS)
    ]
    ends = collection.HasField("deadline") and not collection.HasField("end_time")
    return Picture(
        name=collection.title or collection.collection_id,
        state=collection_state(collection),
        counts=roster.counts,
        ended=roster.ended,
        found=len(roster.members),
        listing=_listing(collection),
        deadline=collection.deadline.ToDatetime(UTC) if ends else None,
        rows=sorted(rows, key=lambda row: row.number),
        under_way=len(roster.under_way),
    )


def name_of(member: pb.Member) -> str:
    """What a person would call it."""
    again = f" (attempt {member.attempt})" if member.attempt > 1 else ""
    return f"{member.title or member.source_url}{again}"


def _listing(collection: pb.Collection) -> str:
    if collection.discovery_complete or not collection.sources:
        return ""
    if len(collection.sources) == 1:
        return "listing"
    done = sum(one.complete for one in collection.listings)
    return f"listing, {done} of {len(collection.sources)} sources done"


class Board(Protocol):
    """Shows how a collection stands."""

    def show(self, roster: Roster) -> None:
        """The newest state of things."""

    def close(self) -> None:
        """Nothing moves any more."""


class LiveBoard:
    """Counts and the bars of members under way, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._picture: Picture | Text = Text("")
        self._live = Live(
            console=console,
            get_renderable=lambda: self._picture,
            refresh_per_second=REDRAWS_A_SECOND,
            # stdout may be a pipe, and then belongs to whoever reads it.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def show(self, roster: Roster) -> None:
        """Drawn when it is time."""
        self._picture = picture_of(roster)

    def close(self) -> None:
        """Leaves the last picture standing."""
        self._live.stop()


class PlainBoard:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = monotonic) -> None:
        self._say = say
        self._now = now
        self._said_at = now()
        self._counts: Mapping[str, int] = {}

    def show(self, roster: Roster) -> None:
        """Says what is new if the last line is old enough."""
        if self._now() - self._said_at >= LINE_SECONDS and roster.counts != self._counts:
            self._said_at, self._counts = self._now(), roster.counts
            self._say(picture_of(roster).summary())

    def close(self) -> None:
        """Nothing is open."""


def board_for(screen: Screen) -> Board:
    """What suits the place stderr leads to."""
    return LiveBoard(screen.console) if screen.lively else PlainBoard(screen.line)
