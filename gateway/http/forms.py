"""Takes a form with one file apart while it streams by; what comes before the file is an option."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.problems import RefusedError

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FILE = "file"
MAX_FIELDS_BYTES = 64 * 1024


class Form:
    """A form as it arrives. `fields` and `file_name` are known once the file has begun."""

    def __init__(self, content_type: str, body: AsyncIterator[bytes]) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise RefusedError(422, "the form names no boundary", field="Content-Type")
        self.fields: dict[str, str] = {}
        self.file_name = ""
        self._body = body
        self._parts = _Parts(self)
        try:
            self._parser = MultipartParser(boundary, self._parts.callbacks())
        except FormParserError as error:
            raise RefusedError(422, str(error), field="Content-Type") from error

    async def until_file(self) -> None:
        """Reads the fields that come before the file."""
        async for piece in self._body:
            self._feed(piece)
            if self._parts.file_begun:
                return
        raise RefusedError(422, "the form has no part called `file`", field=FILE)

    async def file(self) -> AsyncIterator[bytes]:
        """The bytes of the file, as they come."""
        for found in self._parts.taken():
            yield found
        async for piece in self._body:
            self._feed(piece)
            for found in self._parts.taken():
                yield found
        if not self._parts.ended:
            raise RefusedError(422, "the form breaks off", field=FILE)

    def _feed(self, piece: bytes) -> None:
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise RefusedError(422, f"this is no form: {error}", field=FILE) from error


class _Parts:
    """What the parser calls; it pushes, we are asked."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._pieces: list[bytes] = []
        self._header, self._value = b"", b""

        self._name = ""
        self._text = bytearray()
        self._field_bytes = 0
        self.file_begun = self.ended = False

    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._on_part_begin,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    def taken(self) -> list[bytes]:
        """What came of the file since we were last asked."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def _on_part_begin(self) -> None:
        self._header, self._value = b"", b""
        self._text.clear()

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._count(end - start)

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            options = parse_options_header(self._value)[1]
            self._name = options.get(b"name", b"").decode(errors="replace")
            if self._name == FILE:
                self._form.file_name = options.get(b"filename", b"").decode(errors="replace")
        self._header, self._value = b"", b""

    def _on_headers_finished(self) -> None:
        if self.file_begun:
            raise RefusedError(
                422, "nothing may follow the file: options come first", field=self._name or None
            )
        self.file_begun = self._name == FILE

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self.file_begun:
            self._pieces.append(data[start:end])
            return
        self._count(end - start)
        self._text += data[start:end]

    def _on_part_end(self) -> None:
        if not self.file_begun:
            self._form.fields[self._name] = self._text.decode(errors="replace")

    def _on_end(self) -> None:
        self.ended = True

    def _count(self, size: int) -> None:
        self._field_bytes += size
        if self._field_bytes > MAX_FIELDS_BYTES:
            raise RefusedError(413, "the form's fields are too long", field=self._name or None)
