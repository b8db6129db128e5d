"""Lists the server gives a page at a time, as a table or as JSON."""

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Protocol, TypeVar

import click
from google.protobuf.message import Message

from cli.channel import UNARY_SECONDS
from cli.reporting import as_dict
from cli.tables import print_table
from cli.text import to_json
from mesh.correlation import call_metadata

PAGE_SIZE = 200
EVERYTHING = sys.maxsize


class _Request(Protocol):
    page_size: int
    page_token: str


class _Page(Protocol):
    next_page_token: str


PageT = TypeVar("PageT", bound=_Page)
FoundT = TypeVar("FoundT", bound=Message)


async def pages(
    call: Callable[..., Awaitable[PageT]],
    request: _Request,
    items: Callable[[PageT], Sequence[Message]],
    limit: int,
) -> AsyncGenerator[PageT, None]:
    """As many as it takes to have `limit` items; the last may hold more of them."""
    left = limit
    while True:
        request.page_size = min(PAGE_SIZE, left)
        page = await call(request, timeout=UNARY_SECONDS, metadata=call_metadata())
        yield page
        request.page_token = page.next_page_token
        left -= len(items(page))
        if not request.page_token or left <= 0:
            return


async def read_list(
    call: Callable[..., Awaitable[PageT]],
    request: _Request,
    items: Callable[[PageT], Sequence[FoundT]],
    limit: int,
) -> list[FoundT]:
    """At most `limit`, in the server's order."""
    async with aclosing(pages(call, request, items, limit)) as read:
        return [one async for page in read for one in items(page)][:limit]


def print_list(
    found: Sequence[FoundT],
    heads: Sequence[str],
    row: Callable[[FoundT], Sequence[str]],
    *,
    as_json: bool,
) -> None:
    """A table, or one JSON object a line."""
    if as_json:
        for one in found:
            click.echo(to_json(as_dict(one)))
    elif found:
        print_table(heads, [row(one) for one in found])
    else:
        click.echo("nothing found", err=True)
