"""A zip that is written while it is sent; only its table of contents is in memory."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO


class _Buffer:
    """A write-only buffer for the zip; it cannot seek, so sizes follow the files."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self._waiting.append(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def drain(self) -> bytes:
        drained = b"".join(self._waiting)
        self._waiting.clear()
        return drained


class ZipStream:
    """Takes files one after the other; what is ready to send is drained in between."""

    def __init__(self, time: datetime) -> None:
        time = time.astimezone(UTC)
        # Zip times start in 1980 and have no zone.
        self._time = (max(1980, time.year), *time.timetuple()[1:6])
        self._buffer = _Buffer()
        self._zip = zipfile.ZipFile(self._buffer, "w", zipfile.ZIP_DEFLATED)
        self.drain = self._buffer.drain
        """The bytes that are ready to send."""

    def _info(self, name: str, *, compress: bool) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, self._time)
        info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
        info.external_attr = 0o100644 << 16
        return info

    def put(self, name: str, content: bytes) -> None:
        """Adds a whole file."""
        self._zip.writestr(self._info(name, compress=True), content)

    @contextmanager
    def file(self, name: str, *, compress: bool) -> Iterator[IO[bytes]]:
        """Adds a file of any size, which is written piece by piece inside the block."""
        info = self._info(name, compress=compress)
        with self._zip.open(info, "w", force_zip64=True) as opened:
            yield opened

    def end(self) -> bytes:
        """Writes the table of contents; returns the bytes ready to send."""
        self._zip.close()
        return self.drain()
