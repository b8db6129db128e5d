"""Views of a watched list: a live table on a terminal, a JSON line for each change elsewhere."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message
from rich.console import Console
from rich.live import Live
from rich.text import Text

from cli.render.messages import message_json
from cli.render.screen import Screen
from cli.render.tables import table_of
from cli.render.text import to_json

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

    def __init__(self, spec: ListSpec[MessageT], screen: Screen) -> None:
        self.line = screen.line
        self._spec = spec
        self._screen = screen
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


def list_view_for(spec: ListSpec[Any], *, as_json: bool) -> LiveTable[Any] | ChangeLines[Any]:
    """A live table if stdout is a terminal and JSON was not asked for."""
    if sys.stdout.isatty() and not as_json:
        return LiveTable(spec)
    return ChangeLines(spec, Screen())
