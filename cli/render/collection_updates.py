"""Renders the updates of a collection's watch: member lines, JSON lines, progress."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from time import monotonic
from typing import Any, TypeAlias

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cli.exits import CommandError, Exit
from cli.render.bars import LINE_SECONDS
from cli.render.collection_state import ENDED, CollectionProjection, count_summary
from cli.render.messages import (
    as_dict,
    collection_state,
    failure_line,
    member_state,
    member_title,
)
from cli.render.screen import ConnectionNotice, Screen
from cli.render.text import for_terminal, short_clock, to_json
from mesh.messages import enum_word
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb
from ytcaption.v1 import task_pb2

REDRAWS_PER_SECOND = 4
MAX_ROWS = 100
# Headline, counts, overall bar, "and more", and space for the line that was just printed above.
OTHER_LINES = 6

Row: TypeAlias = tuple[int, str, float | None]
"""A member under way: its number, title and progress, None while that is unknown."""
SUBTASK_ENDED = frozenset(
    {
        task_pb2.SUBTASK_STATE_COMPLETED,
        task_pb2.SUBTASK_STATE_FAILED,
        task_pb2.SUBTASK_STATE_TIMED_OUT,
        task_pb2.SUBTASK_STATE_CANCELLED,
    }
)
STATE_WIDTH = len("completed")


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


def member_line(member: pb.Member) -> str:
    """7 failed    A talk: the video is private (VIDEO_PRIVATE)."""
    late = " (late)" if member.late else ""
    failure = f": {failure_line(member.failure)}" if member.HasField("failure") else ""
    state = f"{member_state(member.state):<{STATE_WIDTH}}"
    return f"{member.number:>4} {state} {for_terminal(f'{member_title(member)}{late}{failure}')}"


def member_json(member: pb.Member) -> str:
    """The member as one line of JSON, its state without the prefix of the contract."""
    state = enum_word(pb.MemberState, member.state).upper()
    return to_json({"type": "member", **as_dict(member), "state": state})


def subtask_line(subtask: task_pb2.Subtask) -> str:
    """Collector blog: completed, 12 found."""
    role = enum_word(task_pb2.TaskRole, subtask.role)
    state = enum_word(task_pb2.SubtaskState, subtask.state).replace("_", " ")
    found = f", {subtask.found} found" if subtask.found else ""
    files = "".join(f", {one.name}" for one in subtask.files)
    failure = f": {failure_line(subtask.failure)}" if subtask.HasField("failure") else ""
    late = " (late)" if subtask.late else ""
    return for_terminal(f"{role} {subtask.type}: {state}{late}{found}{files}{failure}")


def subtask_json(subtask: task_pb2.Subtask) -> str:
    """The subtask as one line of JSON, its words without the prefixes of the contract."""
    words = {
        "role": enum_word(task_pb2.TaskRole, subtask.role).upper(),
        "state": enum_word(task_pb2.SubtaskState, subtask.state).upper(),
    }
    of_type = {"type": "subtask", "name": subtask.type}
    return to_json({**as_dict(subtask), **of_type, **words})


class CollectionRenderer:
    """Renders the watch of one collection for one reader."""

    def __init__(self, screen: Screen, *, json_lines: bool = False) -> None:
        self.state = CollectionProjection()
        self.connection = ConnectionNotice(screen.line)
        self._screen = screen
        self._view = progress_view_for(screen)
        self._json = json_lines
        self._broken: set[str] = set()

    def close(self) -> None:
        """Leaves the last progress on the screen."""
        self._view.close()

    def render(
        self, update: service_pb.WatchCollectionResponse, *, print_member: bool = True
    ) -> pb.Member | None:
        """Renders one update, in order; returns the member whose state it changed, if any."""
        self.connection.restored()
        changed = self.state.apply(update)
        if update.HasField("collection"):
            self._print_broken_listings(update.collection)
        self._print_part(update)
        self._view.show(self.state)
        if changed is not None and print_member:
            self._print_member(changed)
        return changed

    def _print_member(self, member: pb.Member) -> None:
        if self._json:
            self._screen.out(member_json(member))
        elif member.state in ENDED:
            self._screen.out(member_line(member))

    def _print_part(self, update: service_pb.WatchCollectionResponse) -> None:
        """Subtasks and documents: as JSON all of them, else subtasks that have ended."""
        if update.HasField("subtask"):
            if self._json:
                self._screen.out(subtask_json(update.subtask))
            elif update.subtask.state in SUBTASK_ENDED:
                self._screen.line(subtask_line(update.subtask))
        elif update.HasField("document") and self._json:
            self._screen.out(to_json({"type": "document", **as_dict(update.document)}))

    def _print_broken_listings(self, collection: pb.Collection) -> None:
        for listing in collection.listings:
            if listing.HasField("failure") and listing.source not in self._broken:
                self._broken.add(listing.source)
                failure = failure_line(listing.failure)
                self._screen.line(f"the listing of {listing.source} broke off: {failure}")


def collection_exit(state: CollectionProjection) -> Exit:
    """The exit code of a complete collection; raises for a partial or cancelled one."""
    collection = state.collection
    if collection.state == pb.COLLECTION_STATE_COMPLETE:
        return Exit.OK
    if collection.state == pb.COLLECTION_STATE_CANCELLED:
        note = f": {collection.cancel_note}" if collection.cancel_note else ""
        raise CommandError(f"the collection was cancelled{note}", Exit.CANCELLED)
    missing = {name: count for name, count in state.counts.items() if name != "completed"}
    broken = sum(one.HasField("failure") for one in collection.listings)
    parts = [count_summary(missing)] if missing else []
    unfinished = sum(
        one.state != task_pb2.SUBTASK_STATE_COMPLETED for one in state.subtasks.values()
    )
    if unfinished:
        parts.append(f"{unfinished} of {len(state.subtasks)} subtasks did not complete")
    if broken:
        parts.append(f"{broken} of {len(collection.listings)} listings broke off")
    raise CommandError(f"the collection is partial: {', '.join(parts)}", Exit.PARTIAL)


def collection_result_json(state: CollectionProjection, **more: Any) -> str:
    """The last JSON line of `collect`."""
    collection = state.collection
    return to_json(
        {
            "type": "finished",
            "collection_id": collection.collection_id,
            "state": collection_state(collection).upper(),
            "members": len(state.members),
            "late": sum(member.late for member in state.members.values()),
            "counts": {name.upper().replace(" ", "_"): n for name, n in state.counts.items()},
            **more,
        }
    )
