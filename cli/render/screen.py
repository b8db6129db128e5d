"""Output: captions and tables on stdout, the rest on stderr; on one terminal they do not mix."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC

import click
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from cli.render.text import for_terminal

# A pipe has no width; ids must not be cut.
PIPE_WIDTH = 200


class Screen(AbstractContextManager["Screen"]):
    """stdout and stderr of the command."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self.quiet = quiet
        self._status: Status | None = None

    @property
    def lively(self) -> bool:
        """Whether stderr may show live views."""
        return self.console.is_terminal and not self.quiet

    def __exit__(self, *_: object) -> None:
        self.status("")

    def line(self, text: str) -> None:
        """Writes a line to stderr, above a live view."""
        if not self.quiet:
            self.console.print(Text(for_terminal(text)), soft_wrap=True)

    def status(self, text: str) -> None:
        """Shows a line with a spinner, on a terminal only; "" ends it."""
        if not text:
            if self._status is not None:
                self._status.stop()
            self._status = None
        elif self.lively and self._status is None:
            self._status = self.console.status(Text(text))
            self._status.start()
        elif self._status is not None:
            self._status.update(Text(text))

    def out(self, text: str) -> None:
        """Writes a line to stdout and flushes it."""
        if sys.stdout.isatty() and self.lively:
            # The same terminal: rich prints it above the live view.
            self.console.print(Text(text), soft_wrap=True)
        else:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()


class ConnectionNotice:
    """Says once that the connection was lost, and once that it is back."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._lost = False

    def lost(self) -> None:
        """To be called whenever the server goes away."""
        if not self._lost:
            self._write("the connection was lost; reconnecting")
        self._lost = True

    def restored(self) -> None:
        """To be called with every update."""
        if self._lost:
            self._write("connected again")
        self._lost = False


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], whole: int = 0) -> None:
    """Prints a table; the column `whole` holds ids and is never cut."""
    table = table_of(heads, rows, whole)
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    Console(width=width, highlight=False).print(table)


def table_of(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    whole: int = 0,
    *,
    one_line: bool = False,
) -> Table:
    """Builds a table; with `one_line` the last column is cut instead of wrapped."""
    table = Table(*heads, box=None, pad_edge=False, expand=one_line)
    if one_line:
        table.columns[-1].no_wrap = True
        table.columns[-1].ratio = 1  # the width the others leave
    table.columns[whole].no_wrap = True
    table.columns[whole].overflow = "fold"
    for row in rows:
        table.add_row(*(Text(for_terminal(cell)) for cell in row))
    return table


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Prints one fact a line; skips empty ones."""
    for label, value in facts:
        if value:
            click.echo(f"{label:<14} {for_terminal(value)}")


def minute(time: Timestamp) -> str:
    """A timestamp to the minute, UTC; empty if it is not set."""
    return time.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M") if time.seconds else ""
