"""The report as Markdown. Escapes every character of untrusted text that could be markup."""

import re
from collections.abc import Iterator

from reports import words
from reports.model import Collection, Document, Member, Text

_SIGNS = re.compile(r"([\\`*_{}\[\]<>|~&#$@^!])")
_ADDRESSES = re.compile(r"(?i)://|\bwww\.")
"""Many renderers turn bare addresses into links; these must stay text."""
_BEGINNINGS = re.compile(r"^([-+=]|\d{1,9}(?=[.)]))")
"""Line starts that would make a list, a rule or a heading."""


class MarkdownReport:
    """CommonMark with GitHub's tables."""

    def __init__(self) -> None:
        self._documents = False

    def begin(self, collection: Collection) -> Iterator[str]:
        """The collection and the table of its members."""
        yield f"# {plain(words.heading(collection))}\n\n**{plain(words.summary(collection))}**\n\n"
        for label, value in words.collection_fields(collection):
            yield f"- {label}: {plain(value)}\n"
        for listing in collection.broken_listings:
            failure = plain(words.failure_text(listing.failure))
            yield f"- {plain(words.incomplete_listing(listing))}: {failure}\n"
        subtasks = [words.subtask_row(one) for one in collection.subtasks]
        yield from _table("Subtasks", words.SUBTASK_COLUMNS, subtasks)
        documents = [words.document_row(one) for one in collection.documents]
        yield from _table("Documents", words.DOCUMENT_COLUMNS, documents)
        if not collection.members:
            yield "\nThere are no recordings in this collection.\n"
            return
        yield f"\n## Recordings\n\n| {' | '.join(words.COLUMNS)} |\n"
        yield "| ---: | --- | --- | ---: | --- | --- |\n"
        for member in collection.members:
            yield f"| {' | '.join(map(plain, words.row(member)))} |\n"

    def member(self, member: Member, text: Text) -> Iterator[str]:
        """A heading, the member's fields, and its text."""
        yield f"\n## {member.number}\\. {plain(words.name(member))}\n\n"
        yield f"- State: {words.state(member)}\n"
        if address := words.link(member.url):
            yield f"- Link: <{address}>\n"
        elif member.url:
            yield f"- Source: {plain(member.url)}\n"
        for label, value in words.member_fields(member, text):
            yield f"- {label}: {plain(value)}\n"
        if why := words.failure_text(member.failure):
            yield f"- Failure: {plain(why)}\n"
        if text.note:
            yield f"\n*{plain(text.note)}*\n"
        for block in words.text_blocks(member, text):
            yield from _text_block(block)

    def document(self, document: Document, text: Text) -> Iterator[str]:
        """A heading, the document's fields, and its text."""
        if not self._documents:
            self._documents = True
            yield "\n## Documents\n"
        yield f"\n### {document.number}\\. {plain(words.document_name(document))}\n\n"
        if address := words.link(document.url):
            yield f"- Link: <{address}>\n"
        for label, value in words.document_fields(document):
            yield f"- {label}: {plain(value)}\n"
        for paragraph in text.paragraphs:
            yield f"\n{plain(paragraph)}\n"

    def end(self) -> Iterator[str]:
        """Yields nothing."""
        yield from ()


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Nothing without rows."""
    if not rows:
        return
    yield f"\n## {title}\n\n| {' | '.join(columns)} |\n"
    yield f"| ---: {'| --- ' * (len(columns) - 1)}|\n"
    for row in rows:
        yield f"| {' | '.join(map(plain, row))} |\n"


def _text_block(block: words.TextBlock) -> Iterator[str]:
    if block.label:
        yield f"\n### {plain(block.label)}\n"
    for paragraph in block.paragraphs:
        yield f"\n{plain(paragraph)}\n"


def plain(text: str) -> str:
    """The text escaped, on one line."""
    escaped = _SIGNS.sub(r"\\\1", words.on_one_line(text))
    if "://" in escaped or "www." in escaped.lower():
        escaped = _ADDRESSES.sub(_unlinked, escaped)
    return _BEGINNINGS.sub(_not_a_beginning, escaped)


def _unlinked(found: re.Match[str]) -> str:
    return ":\\/\\/" if found[0] == "://" else f"{found[0][:-1]}\\."


def _not_a_beginning(found: re.Match[str]) -> str:
    sign = found[0]
    # A digit cannot be escaped, but the full stop after it can, which prevents a list.
    return f"{sign}\\" if sign[0].isdigit() else f"\\{sign}"
