"""All captions in one zip, written while it is sent; only its table of contents is in memory."""

import re
import unicodedata
from collections.abc import Iterator

from reports.model import Collection, Member
from reports.words import (
    collection_fields,
    failure_text,
    heading,
    incomplete_listing,
    name,
    on_one_line,
    state,
    summary,
)
from reports.zip_stream import ZipStream

README = "README.txt"
MAX_BYTES = 120
"""In UTF-8, without number and suffix: most systems allow 255."""
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f%~$`]')
"""Characters that Windows forbids, or that a shell or a path interprets."""


class CaptionsZip:
    """Files named `001 Title.srt`, translated ones `001 Title.en.srt`, and README.txt, which lists
    every member."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._zip = ZipStream(collection.report_time)
        self._lines: list[str] = []

    def add(
        self,
        member: Member,
        captions: bytes,
        suffix: str,
        translated_into: str = "",
        language_name: str = "",
    ) -> bytes:
        """Adds a member's captions or their translation; returns the bytes ready to send."""
        total = len(self._collection.members)
        file = numbered(member.number, total, name(member), suffix, translated_into)
        self._zip.put(file, captions)
        kind = f"\n    translation: {on_one_line(language_name)}" if translated_into else ""
        self._lines.append(f"{file}{kind}\n")
        return self._zip.drain()

    def skip(self, member: Member, why: str) -> None:
        """Lists a member without captions in the readme."""
        why = failure_text(member.failure) or why
        reason = f": {why}" if why else ""
        self._lines.append(f"{member.number:03} {name(member)}\n    {state(member)}{reason}\n")
        if member.url:
            self._lines.append(f"    {name(Member(member.number, member.url, member.state))}\n")

    def end(self) -> bytes:
        """Writes the readme and the table of contents."""
        self._zip.put(README, "".join(self._readme()).encode())
        return self._zip.end()

    def _readme(self) -> Iterator[str]:
        collection = self._collection
        yield f"{heading(collection)}\n\n{summary(collection)}\n\n"
        for label, value in collection_fields(collection):
            yield f"{label}: {value}\n"
        for listing in collection.broken_listings:
            yield f"{incomplete_listing(listing)}: {failure_text(listing.failure)}\n"
        yield "\nRecordings; those without a file have no captions, for the reason given:\n\n"
        yield from self._lines
        if not self._lines:
            yield "none\n"


def safe(text: str, limit: int = MAX_BYTES) -> str:
    """The text as part of a file name that is safe on every system; may be empty."""
    kept = _FORBIDDEN.sub("_", unicodedata.normalize("NFC", on_one_line(text)))
    kept = "".join(sign if sign.isprintable() else "_" for sign in kept)
    cut = kept.encode()[:limit].decode(errors="ignore")
    # On Windows a name must not end with a dot or space; elsewhere a leading dot hides the file.
    return cut.strip(" .")


def numbered(number: int, total: int, title: str, suffix: str, language: str = "") -> str:
    """`001 Title.srt`. The number makes it unique and avoids reserved names like CON.

    A translation is `001 Title.en.srt`: players find both, and know which is in which language.
    """
    width = max(3, len(str(total)))
    tag = f".{safe(language)}" if language else ""
    return f"{f'{number:0{width}} {safe(title)}'.rstrip()}{tag}.{suffix}"
