"""The report as Markdown. Strangers' words stay words: any sign that could be markup is escaped."""

import re
from collections.abc import Iterator

from reports.model import Collection, Member, Text
from reports.passages import Passage, passages
from reports.words import (
    COLUMNS,
    broke_off,
    facts,
    failed,
    heading,
    link,
    name,
    on_one_line,
    particulars,
    row,
    state,
    summary,
)

_SIGNS = re.compile(r"([\\`*_{}\[\]<>|~&#$@^!])")
_ADDRESSES = re.compile(r"(?i)://|\bwww\.")
"""Many readers make links of bare addresses; we decide what is a link."""
_BEGINNINGS = re.compile(r"^([-+=]|\d{1,9}(?=[.)]))")
"""What makes a list, a rule or a heading of a line that begins with it."""


class MarkdownReport:
    """CommonMark with the tables of GitHub's flavour."""

    def begin(self, collection: Collection) -> Iterator[str]:
        """The collection and the table of its members."""
        yield f"# {plain(heading(collection))}\n\n**{plain(summary(collection))}**\n\n"
        for label, value in facts(collection):
            yield f"- {label}: {plain(value)}\n"
        for listing in collection.broken_listings:
            yield f"- {plain(broke_off(listing))}: {plain(failed(listing.failure))}\n"
        if not collection.members:
            yield "\nThere are no recordings in this collection.\n"
            return
        yield f"\n## Recordings\n\n| {' | '.join(COLUMNS)} |\n"
        yield "| ---: | --- | --- | ---: | --- | --- |\n"
        for member in collection.members:
            yield f"| {' | '.join(map(plain, row(member)))} |\n"

    def member(self, member: Member, text: Text) -> Iterator[str]:
        """A heading, what is known, and the text."""
        yield f"\n## {member.number}\\. {plain(name(member))}\n\n"
        yield f"- State: {state(member)}\n"
        if address := link(member.url):
            yield f"- Link: <{address}>\n"
        elif member.url:
            yield f"- Source: {plain(member.url)}\n"
        for label, value in particulars(member, text):
            yield f"- {label}: {plain(value)}\n"
        if why := failed(member.failure):
            yield f"- Failure: {plain(why)}\n"
        if text.note:
            yield f"\n*{plain(text.note)}*\n"
        for passage in passages(member, text):
            yield from _passage(passage)

    def end(self) -> Iterator[str]:
        """Nothing."""
        yield from ()


def _passage(passage: Passage) -> Iterator[str]:
    if passage.label:
        yield f"\n### {plain(passage.label)}\n"
    for paragraph in passage.paragraphs:
        yield f"\n{plain(paragraph)}\n"


def plain(text: str) -> str:
    """The text as itself, on one line."""
    escaped = _SIGNS.sub(r"\\\1", on_one_line(text))
    if "://" in escaped or "www." in escaped.lower():
        escaped = _ADDRESSES.sub(_unlinked, escaped)
    return _BEGINNINGS.sub(_not_a_beginning, escaped)


def _unlinked(found: re.Match[str]) -> str:
    return ":\\/\\/" if found[0] == "://" else f"{found[0][:-1]}\\."


def _not_a_beginning(found: re.Match[str]) -> str:
    sign = found[0]
    # A digit cannot be escaped; the stop after it can, and that is what makes the list.
    return f"{sign}\\" if sign[0].isdigit() else f"\\{sign}"
