"""Reads articles out of RSS and Atom feeds, and out of pages; knows nothing of gRPC."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from urllib.parse import urljoin
from xml.etree import ElementTree

BLOCKS = {"p", "div", "br", "li", "h1", "h2", "h3", "h4", "blockquote", "pre", "tr"}
UNSEEN = {"script", "style", "nav", "template"}
FEEDS = ("application/rss+xml", "application/atom+xml")


@dataclass(slots=True)
class Entry:
    """One article."""

    url: str = ""
    title: str = ""
    text: str = ""
    day: str = ""
    """YYYY-MM-DD; empty if unknown."""
    language: str = ""


def read_entries(page: bytes, address: str) -> Iterator[Entry]:
    """The articles of a feed, or else of a page."""
    try:
        root = ElementTree.fromstring(page)  # noqa: S314 # expat bounds what entities expand to
    except ElementTree.ParseError:
        root = None
    if root is None or _name(root) == "html":
        yield from _articles(page, address)
        return
    language = _text(root, "language") or root.get("{http://www.w3.org/XML/1998/namespace}lang", "")
    for item in (one for one in root.iter() if _name(one) in ("item", "entry")):
        yield Entry(
            url=urljoin(address, _link(item)),
            title=plain(_text(item, "title")),
            text=plain(_text(item, "encoded", "content", "description", "summary")),
            day=day(_text(item, "pubdate", "published", "updated", "date")),
            language=language,
        )


def feed_address(page: bytes, address: str) -> str:
    """The address of the feed that a page names; empty if it names none, or is one."""
    for tag in re.findall(rb"<link\b[^>]*>", page, re.IGNORECASE):
        found = dict(
            re.findall(r"""([\w-]+)\s*=\s*["']([^"']*)["']""", tag.decode(errors="ignore"))
        )
        if found.get("type") in FEEDS and found.get("rel") == "alternate":
            return str(urljoin(address, found.get("href", "")))
    return ""


def plain(html: str) -> str:
    """The text of a piece of HTML, a line for each block."""
    reader = _Page()
    reader.feed(html)
    reader.close()
    return reader.text()


def day(text: str) -> str:
    """A day of publication as YYYY-MM-DD; empty if it cannot be read."""
    try:
        return datetime.fromisoformat(text.strip()).date().isoformat()
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(text).date().isoformat()
    except ValueError:
        return ""


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2].lower()


def _text(parent: ElementTree.Element, *names: str) -> str:
    """The text of the first of these that is there."""
    found = {_name(one): "".join(one.itertext()) for one in reversed(list(parent.iterfind("*")))}
    found |= {_name(one): "".join(one.itertext()) for one in parent.iterfind("channel/*")}
    return next((found[name].strip() for name in names if found.get(name)), "")


def _link(item: ElementTree.Element) -> str:
    links = [one for one in item if _name(one) == "link"]
    usual = [one for one in links if one.get("rel", "alternate") == "alternate"]
    return next(((one.get("href") or one.text or "").strip() for one in usual), "")


def _articles(page: bytes, address: str) -> Iterator[Entry]:
    """Every <article> of a page; the page as a whole if it has none."""
    whole = page.decode(errors="replace")
    parts = re.findall(r"<article\b.*?</article>", whole, re.IGNORECASE | re.DOTALL) or [whole]
    language = re.search(r"""<html[^>]*\blang\s*=\s*["']([\w-]+)""", whole, re.IGNORECASE)
    for part in parts:
        reader = _Page()
        reader.feed(part)
        reader.close()
        yield Entry(
            url=urljoin(address, reader.link) if len(parts) > 1 else address,
            title=reader.title.strip(),
            text=reader.text(),
            day=day(reader.time),
            language=language[1] if language else "",
        )


class _Page(HTMLParser):
    """Collects the text, the first heading, its link and the time."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._unseen = 0
        self._heading = False
        self.title = self.link = self.time = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self._unseen += tag in UNSEEN
        if tag in ("h1", "h2", "h3") and not self.title:
            self._heading = True
        if tag == "a" and self._heading and not self.link:
            self.link = known.get("href") or ""
        if tag == "time" and not self.time:
            self.time = known.get("datetime") or ""
        if tag in BLOCKS:
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in UNSEEN and self._unseen > 0
        if tag in ("h1", "h2", "h3"):
            self._heading = False
        if tag in BLOCKS:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._unseen:
            return
        if self._heading:
            self.title += data
        self._parts.append(data)

    def text(self) -> str:
        """The text, without empty lines."""
        lines = (" ".join(line.split()) for line in "".join(self._parts).splitlines())
        return "\n\n".join(line for line in lines if line)
