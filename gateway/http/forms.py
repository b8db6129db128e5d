"""Streaming parser of multipart forms with one file; fields before the file are options."""

from collections.abc import AsyncIterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.http.problems import RefusedError

FILE = "file"
MAX_FIELDS_BYTES = 64 * 1024


class MultipartForm:
    """A form as it arrives; `fields` and `file_name` are complete once `read_fields` returns."""

    def __init__(self, content_type: str, body: AsyncIterator[bytes]) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise RefusedError(
                422, "the Content-Type of the form has no boundary", field="Content-Type"
            )
        self.fields: dict[str, str] = {}
        self.file_name = ""
        self._body = body
        self._chunks: list[bytes] = []
        """File data that `file` has not yielded yet."""

        self._header, self._value = b"", b""
        self._name = ""
        self._text = bytearray()
        self._field_bytes = 0
        self._file_started = self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
            )
        except FormParserError as error:
            raise RefusedError(422, str(error), field="Content-Type") from error

    async def read_fields(self) -> None:
        """Reads the fields, up to the first byte of the file."""
        async for chunk in self._body:
            self._feed(chunk)
            if self._file_started:
                return
        raise RefusedError(422, "the form has no part named `file`", field=FILE)

    async def file(self) -> AsyncIterator[bytes]:
        """Yields the bytes of the file as they arrive."""
        for data in self._take():
            yield data
        async for chunk in self._body:
            self._feed(chunk)
            for data in self._take():
                yield data
        if not self._ended:
            raise RefusedError(422, "the form is incomplete", field=FILE)

    def _feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise RefusedError(422, f"the body is not a valid form: {error}", field=FILE) from error

    def _take(self) -> list[bytes]:
        chunks, self._chunks = self._chunks, []
        return chunks

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
                self.file_name = options.get(b"filename", b"").decode(errors="replace")
        self._header, self._value = b"", b""

    def _on_headers_finished(self) -> None:
        if self._file_started:
            raise RefusedError(
                422,
                "the file must be the last part: put options before it",
                field=self._name or None,
            )
        self._file_started = self._name == FILE

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file_started:
            self._chunks.append(data[start:end])
            return
        self._count(end - start)
        self._text += data[start:end]

    def _on_part_end(self) -> None:
        if not self._file_started:
            self.fields[self._name] = self._text.decode(errors="replace")

    def _on_end(self) -> None:
        self._ended = True

    def _count(self, size: int) -> None:
        self._field_bytes += size
        if self._field_bytes > MAX_FIELDS_BYTES:
            raise RefusedError(413, "the form's fields are too long", field=self._name or None)
