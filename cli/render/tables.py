"""Tables and facts on stdout; every cell is made safe for a terminal."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC

import click
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.render.text import for_terminal

# A pipe has no width; ids must not be cut.
PIPE_WIDTH = 200


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
