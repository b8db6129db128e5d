"""Lists that move: a table redrawn on a terminal, a line of JSON for each change elsewhere."""

import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message
from rich.console import Console
from rich.live import Live
from rich.text import Text

from cli.reporting import as_dict
from cli.screen import Screen
from cli.tables import table_of
from cli.text import to_json
from mesh.watching import follow_pages

FoundT = TypeVar("FoundT", bound=Message)
LOST = "the connection was lost; trying to get it back"


@dataclass(frozen=True, slots=True)
class Kind(Generic[FoundT]):
    """What a list holds, and how a line of it looks."""

    id_field: str
    heads: Sequence[str]
    row: Callable[[FoundT], Sequence[str]]
    items: Callable[[Any], Sequence[FoundT]]
    """What is on a page."""


class Board(Protocol):
    """Where a list is shown."""

    def show(self, found: Sequence[Any]) -> None:
        """The list as it is now."""

    def say(self, text: str) -> None:
        """A line for people."""

    def close(self) -> None:
        """Leaves what was shown last."""


class LiveTable(Generic[FoundT]):
    """One table, drawn again with every change; what a screen has no room for is left out."""

    def __init__(self, kind: Kind[FoundT]) -> None:
        self._kind = kind
        self._live = Live(console=Console(highlight=False), auto_refresh=False)

    def show(self, found: Sequence[FoundT]) -> None:
        """See Board."""
        self._live.start()  # once; before, there is nothing to draw
        rows = map(self._kind.row, found)
        self._live.update(table_of(self._kind.heads, rows, one_line=True), refresh=True)

    def say(self, text: str) -> None:
        """See Board."""
        self._live.console.print(Text(text))

    def close(self) -> None:
        """See Board."""
        self._live.stop()


class Changes(Generic[FoundT]):
    """A line of JSON for each that is new, has changed, or is no longer on the list."""

    def __init__(self, kind: Kind[FoundT], screen: Screen) -> None:
        self._kind = kind
        self._screen = screen
        self._known: dict[str, FoundT] = {}

    def show(self, found: Sequence[FoundT]) -> None:
        """See Board."""
        id_field = self._kind.id_field
        now = {str(getattr(one, id_field)): one for one in found}
        for gone in self._known.keys() - now.keys():
            self._screen.out(to_json({id_field: gone, "gone": True}))
        for id_, one in now.items():
            if self._known.get(id_) != one:
                self._screen.out(to_json(as_dict(one)))
        self._known = now

    def say(self, text: str) -> None:
        """See Board."""
        self._screen.line(text)

    def close(self) -> None:
        """See Board."""


def board_for(kind: Kind[Any], *, as_json: bool) -> Board:
    """A table where somebody looks."""
    if sys.stdout.isatty() and not as_json:
        return LiveTable(kind)
    return Changes(kind, Screen())


async def watch_list(
    call: Callable[..., Any], request: Any, kind: Kind[Any], limit: int, *, as_json: bool
) -> None:
    """Shows the newest until somebody ends it."""
    request.page_size = limit
    board = board_for(kind, as_json=as_json)
    connected = True

    def cut_off() -> None:
        nonlocal connected
        if connected:  # said once until it is back
            board.say(LOST)
        connected = False

    try:
        async with aclosing(follow_pages(call, request, on_cut=cut_off)) as pages:
            async for page in pages:
                connected = True
                board.show(kind.items(page))
    finally:
        board.close()
