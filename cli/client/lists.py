"""Paged lists of a server, read once or watched."""

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, closing
from typing import Any

import click
from google.protobuf.message import Message

from cli.channel import call
from cli.render.live_listing import ListSpec, list_view_for
from cli.render.messages import message_json
from cli.render.screen import ConnectionNotice
from cli.render.tables import print_table
from mesh.watching import follow_pages

PAGE_SIZE = 200
"""The largest page a server returns."""
EVERYTHING = sys.maxsize


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
    with closing(list_view_for(spec, as_json=as_json)) as view:
        connection = ConnectionNotice(view.line)
        async with aclosing(follow_pages(method, request, on_cut=connection.lost)) as read:
            async for page in read:
                connection.restored()
                view.show(spec.items(page))
