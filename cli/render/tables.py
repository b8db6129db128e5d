"""Tables and facts on stdout, from text that may be anything."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC

import click
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.text import for_terminal

# Nobody reads a pipe's width; an id cut short is no id.
PIPE_WIDTH = 200


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], whole: int = 0) -> None:
    """The column `whole` holds ids: one cut short is no id."""
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
    """The same for who draws it; with `one_line` the last column is cut rather than wrapped."""
    table = Table(*heads, box=None, pad_edge=False, expand=one_line)
    if one_line:
        table.columns[-1].no_wrap = True
        table.columns[-1].ratio = 1  # what the others leave
    table.columns[whole].no_wrap = True
    table.columns[whole].overflow = "fold"
    for row in rows:
        table.add_row(*(Text(for_terminal(cell)) for cell in row))
    return table


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """One a line; those with nothing to say are left out."""
    for label, value in facts:
        if value:
            click.echo(f"{label:<14} {for_terminal(value)}")


def minute(time: Timestamp) -> str:
    """A moment as people write it, UTC; nothing if there is none."""
    return time.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M") if time.seconds else ""
