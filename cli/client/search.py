"""Searches in captions."""

import sys
from collections.abc import AsyncIterator, Sequence

import click

from cli.channel import Server, call
from cli.exits import Exit
from cli.render.messages import message_json
from cli.render.text import clock, for_terminal
from ytcaption.v1 import search_service_pb2 as pb

MAX_PAGE = 100


async def search(  # noqa: PLR0913 # one for each option
    server: Server,
    words: Sequence[str],
    language: str,
    collection: str,
    job: str,
    limit: int,
    *,
    as_json: bool,
) -> Exit:
    """Prints a line for each passage: job, time, title and text; exits with 1 if there is none."""
    request = pb.SearchRequest(
        query=" ".join(words), language=language, collection_id=collection, job_id=job
    )
    found = 0
    async for hit in _hits(server, request, limit):
        found += 1
        click.echo(message_json(hit) if as_json else _line(hit, marked=sys.stdout.isatty()))
    return Exit.OK if found else Exit.NOTHING_FOUND


async def _hits(
    server: Server, request: pb.SearchRequest, limit: int
) -> AsyncIterator[pb.SearchHit]:
    left = limit
    while left:
        request.page_size = min(left, MAX_PAGE)
        page = await call(server.searching.Search, request)
        for hit in page.hits[:left]:
            yield hit
        left -= min(left, len(page.hits))
        if not page.next_page_token:
            _note_behind(page)
            return
        request.page_token = page.next_page_token


def _note_behind(page: pb.SearchResponse) -> None:
    if page.behind:
        click.echo(f"{page.behind} recordings are not in the index yet", err=True)


def _line(hit: pb.SearchHit, *, marked: bool) -> str:
    title = for_terminal(hit.title or hit.source)
    moment = clock(hit.match_offset.ToTimedelta())
    return f"{hit.job_id}  {moment}  {title}  {_snippet(hit, marked=marked)}"


def _snippet(hit: pb.SearchHit, *, marked: bool) -> str:
    """The text on one line; on a terminal with its matches in bold."""
    if not marked:
        return for_terminal(hit.snippet)
    parts: list[str] = []
    place = 0
    for match in hit.matches:
        parts += [
            _safe(hit.snippet[place : match.start]),
            click.style(_safe(hit.snippet[match.start : match.end]), bold=True),
        ]
        place = match.end
    return "".join([*parts, _safe(hit.snippet[place:])])


def _safe(part: str) -> str:
    """A part of a line: like `for_terminal`, with its blanks at the ends."""
    lead = " " if part[:1].isspace() else ""
    tail = " " if part[-1:].isspace() and part.strip() else ""
    return f"{lead}{for_terminal(part)}{tail}"
