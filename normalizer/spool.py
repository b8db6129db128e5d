"""Spools media to disk that must be complete before it can be read."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from mesh.errors import LimitExceededError
from mesh.reasons import Reason
from mesh.scratch import Scratch


class Spool:
    """Files with whole recordings, each removed with the call that filled it."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.scratch = Scratch(folder, "recording-")
        self._max_bytes = max_bytes

    @asynccontextmanager
    async def filled(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[Path]:
        """A file with all the bytes of `chunks`; removed when the block ends."""
        with self.scratch.folder() as folder:
            path = folder / "media"
            path.touch(mode=0o600)
            with path.open("wb") as file:
                await self._fill(file, chunks)
                yield path

    async def _fill(self, file: BinaryIO, chunks: AsyncIterator[bytes]) -> None:
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > self._max_bytes:
                raise LimitExceededError(
                    f"media with its index at the end may have at most {self._max_bytes} bytes",
                    reason=Reason.TOO_LARGE,
                )
            await asyncio.to_thread(_write, file, chunk)
        await asyncio.to_thread(_write, file, b"", flush=True)


def _write(file: BinaryIO, data: bytes, *, flush: bool = False) -> None:
    try:
        file.write(data)
        if flush:
            file.flush()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LimitExceededError(
                "the normalizer's disk is full", reason=Reason.STORAGE_FULL
            ) from error
        raise
