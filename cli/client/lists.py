"""Paged lists of a server: read once, or watched as a live table or a JSON line for each change."""

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click
from google.protobuf.message import Message
from rich.console import Console
from rich.live import Live
from rich.text import Text

from cli.channel import call
from cli.render.messages import message_json
from cli.render.screen import ConnectionNotice, Screen, print_table, table_of
from cli.render.text import to_json
from mesh.watching import follow_pages

PAGE_SIZE = 200
"""The largest page a server returns."""
EVERYTHING = sys.maxsize

MessageT = TypeVar("MessageT", bound=Message)


@dataclass(frozen=True, slots=True)
class ListSpec(Generic[MessageT]):
    """What a list holds, and the columns of its table."""

    id_field: str
    heads: Sequence[str]
    row: Callable[[MessageT], Sequence[str]]
    items: Callable[[Any], Sequence[MessageT]]
    """The items of a page."""


class LiveTable(Generic[MessageT]):
    """A table redrawn with every change; rows beyond the height of the screen are left out."""

    def __init__(self, spec: ListSpec[MessageT]) -> None:
        self._spec = spec
        self._live = Live(console=Console(highlight=False), auto_refresh=False)

    def show(self, found: Sequence[MessageT]) -> None:
        """Draws the newest list."""
        self._live.start()  # has an effect once; before the first list there is nothing to draw
        rows = map(self._spec.row, found)
        self._live.update(table_of(self._spec.heads, rows, one_line=True), refresh=True)

    def line(self, text: str) -> None:
        """Writes a line for people, above the table."""
        self._live.console.print(Text(text))

    def close(self) -> None:
        """Leaves the last list on the screen."""
        self._live.stop()


class ChangeLines(Generic[MessageT]):
    """A JSON line for each item that is new, has changed, or has left the list."""

    def __init__(self, spec: ListSpec[MessageT]) -> None:
        self._screen = Screen()
        self.line = self._screen.line
        self._spec = spec
        self._known: dict[str, MessageT] = {}

    def show(self, found: Sequence[MessageT]) -> None:
        """Writes what differs from the list before."""
        id_field = self._spec.id_field
        now = {str(getattr(one, id_field)): one for one in found}
        for gone in self._known.keys() - now.keys():
            self._screen.out(to_json({id_field: gone, "gone": True}))
        for id_, one in now.items():
            if self._known.get(id_) != one:
                self._screen.out(message_json(one))
        self._known = now

    def close(self) -> None:
        """Nothing is open."""


async def pages(
    method: Callable[..., Any], request: Any, items: Callable[[Any], Sequence[Message]], limit: int
) -> AsyncGenerator[Any, None]:
    """Reads pages until they hold `limit` items; the last page may hold more."""
    left = limit
    while True:
        request.page_size = min(PAGE_SIZE, left)
        page = await call(method, request)
        yield page
        request.page_token = page.next_page_token
        left -= len(items(page))
        if not request.page_token or left <= 0:
            return


async def print_list(
    method: Callable[..., Any], request: Any, spec: ListSpec[Any], limit: int, *, as_json: bool
) -> None:
    """Prints at most `limit` items, in the server's order: a table, or one JSON object a line."""
    async with aclosing(pages(method, request, spec.items, limit)) as read:
        found = [one async for page in read for one in spec.items(page)][:limit]
    if as_json:
        for one in found:
            click.echo(message_json(one))
    elif found:
        print_table(spec.heads, map(spec.row, found))
    else:
        click.echo("nothing found", err=True)


async def watch_list(
    method: Callable[..., Any], request: Any, spec: ListSpec[Any], limit: int, *, as_json: bool
) -> None:
    """Shows the first page and its changes until it is cancelled; refuses more than one page."""
    if limit > PAGE_SIZE:
        raise click.UsageError(f"--watch shows {PAGE_SIZE} at most: give a smaller --limit")
    request.page_size = limit
    live = sys.stdout.isatty() and not as_json
    view: LiveTable[Any] | ChangeLines[Any] = LiveTable(spec) if live else ChangeLines(spec)
    with closing(view):
        connection = ConnectionNotice(view.line)
        async with aclosing(follow_pages(method, request, on_cut=connection.lost)) as read:
            async for page in read:
                connection.restored()
                view.show(spec.items(page))
