"""The report as one HTML file without scripts or external resources, enforced by a CSP."""

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from importlib.resources import files

from reports import words
from reports.model import Collection, Document, Member, Text

_STYLE = files("reports").joinpath("page.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"
)


class HtmlReport:
    """A page with a table of contents; untrusted text is always escaped."""

    def __init__(self) -> None:
        self._documents = False

    def begin(self, collection: Collection) -> Iterator[str]:
        """Head, summary, fields and the table of contents."""
        title = _text(words.heading(collection))
        yield (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
            f'<h1 id="top" dir="auto">{title}</h1>\n'
            f'<p class="summary {collection.state}">{_text(words.summary(collection))}</p>\n'
        )
        yield f"<dl>\n{_fields(words.collection_fields(collection))}</dl>\n"
        yield from _listings(collection)
        subtasks = [words.subtask_row(one) for one in collection.subtasks]
        yield from _table("subtasks", "Subtasks", words.SUBTASK_COLUMNS, subtasks)
        documents = [words.document_row(one) for one in collection.documents]
        yield from _table("documents", "Documents", words.DOCUMENT_COLUMNS, documents)
        if not collection.members:
            yield "<p>There are no recordings in this collection.</p>\n"
            return
        yield from _contents(collection)
        yield '<h2 id="recordings">Texts</h2>\n'

    def member(self, member: Member, text: Text) -> Iterator[str]:
        """One article."""
        number = member.number
        yield (
            f'<article id="m{number}" aria-labelledby="t{number}">\n'
            f'<h3 id="t{number}" dir="auto">{number}. {_text(words.name(member))}</h3>\n<dl>\n'
            f"<dt>State</dt><dd>{_state(member)}</dd>\n"
            f"<dt>Link</dt><dd>{_link(member.url)}</dd>\n"
        )
        yield _fields(words.member_fields(member, text))
        if why := words.failure_text(member.failure):
            yield f'<dt>Failure</dt><dd class="failure">{_text(why)}</dd>\n'
        yield "</dl>\n"
        if text.note:
            yield f'<p class="note">{_text(text.note)}</p>\n'
        if text.translation:
            yield from _both(number, words.text_blocks(member, text))
        else:
            for block in words.text_blocks(member, text):
                yield from _text_block(block)
        yield '<p class="back"><a href="#contents">Back to the contents</a></p>\n</article>\n'

    def document(self, document: Document, text: Text) -> Iterator[str]:
        """One article, after those of the members."""
        if not self._documents:
            self._documents = True
            yield '<h2 id="documents">Documents</h2>\n'
        number = document.number
        yield (
            f'<article id="d{number}" aria-labelledby="n{number}">\n'
            f'<h3 id="n{number}" dir="auto">{number}. {_text(words.document_name(document))}</h3>'
            f"\n<dl>\n<dt>Link</dt><dd>{_link(document.url)}</dd>\n"
            f"{_fields(words.document_fields(document))}</dl>\n"
        )
        language = words.on_one_line(document.language)
        yield from _text_block(words.TextBlock("", language, text.paragraphs))
        yield '<p class="back"><a href="#top">Back to the top</a></p>\n</article>\n'

    def end(self) -> Iterator[str]:
        """Closes the page."""
        yield "</main>\n</body>\n</html>\n"


def _text(text: str) -> str:
    return escape(words.on_one_line(text))


def _fields(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"<dt>{label}</dt><dd>{_text(value)}</dd>\n" for label, value in pairs)


def _both(number: int, found: list[words.TextBlock]) -> Iterator[str]:
    """Original and translation, side by side where there is room."""
    yield '<div class="both">\n'
    for place, block in enumerate(found, start=1):
        label, following = f"t{number}-{place}", f"t{number}-{place + 1}"
        yield f'<section aria-labelledby="{label}">\n'
        yield f'<h4 id="{label}">{_text(block.label)}</h4>\n'
        if place < len(found):
            yield f'<p class="skip"><a href="#{following}">To the translation</a></p>\n'
        yield from _text_block(block)
        yield "</section>\n"
    yield "</div>\n"


def _text_block(block: words.TextBlock) -> Iterator[str]:
    language = f' lang="{_text(block.language)}"' if block.language else ""
    yield f'<div class="text"{language} dir="auto">\n'
    for paragraph in block.paragraphs:
        yield f'<p dir="auto">{_text(paragraph)}</p>\n'
    yield "</div>\n"


def _state(member: Member) -> str:
    return f'<span class="state {member.state}">{words.state(member)}</span>'


def _link(address: str) -> str:
    target = words.link(address)
    if not target:
        return _text(address) or "none"
    return (
        f'<a href="{escape(target)}" rel="noopener noreferrer nofollow external">'
        f"{_text(address)}</a>"
    )


def _listings(collection: Collection) -> Iterator[str]:
    broken = collection.broken_listings
    if not broken:
        return
    yield "<h2>Listings that broke off</h2>\n<ul>\n"
    for listing in broken:
        yield (
            f"<li>{_link(listing.source)}, after {listing.found}: "
            f'<span class="failure">{_text(words.failure_text(listing.failure))}</span></li>\n'
        )
    yield "</ul>\n"


def _table(
    name: str, title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]
) -> Iterator[str]:
    """Nothing without rows. Addresses are plain text: most of them are others' words."""
    if not rows:
        return
    heads = "".join(f'<th scope="col">{column}</th>' for column in columns)
    yield (
        f'<h2 id="{name}">{title}</h2>\n'
        f'<div class="table" role="region" aria-labelledby="{name}" tabindex="0">\n<table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n"
    )
    for number, *cells in rows:
        shown = "".join(f'<td dir="auto">{_text(cell)}</td>' for cell in cells)
        yield f'<tr><td class="number">{number}</td>{shown}</tr>\n'
    yield "</tbody>\n</table>\n</div>\n"


def _contents(collection: Collection) -> Iterator[str]:
    heads = "".join(f'<th scope="col">{column}</th>' for column in words.COLUMNS)
    yield (
        '<nav aria-labelledby="contents">\n<h2 id="contents">Recordings</h2>\n'
        '<div class="table" role="region" aria-labelledby="contents" tabindex="0">\n<table>\n'
        "<caption>Every recording, in the order it was found; titles lead to the texts.</caption>\n"
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n"
    )
    for member in collection.members:
        number, title, _, length, language, reason = map(_text, words.row(member))
        yield (
            f'<tr><td class="number">{number}</td>'
            f'<td class="title" dir="auto"><a href="#m{number}">{title}</a></td>'
            f'<td>{_state(member)}</td><td class="number">{length}</td>'
            f"<td>{language}</td><td>{reason}</td></tr>\n"
        )
    yield "</tbody>\n</table>\n</div>\n</nav>\n"
