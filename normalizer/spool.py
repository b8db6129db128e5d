"""Spools media to disk that must be complete before it can be read."""

import asyncio
import errno
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from mesh.errors import LimitExceededError
from mesh.reasons import Reason
from normalizer.engine import Purged

_SUFFIX = ".spool"


class Spool:
    """A folder of spooled files, each removed with the call that filled it.

    A file in use is locked, so a purge can tell the files of running calls, in this process or
    another, from those a killed process left behind.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    @asynccontextmanager
    async def filled(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[Path]:
        """A file with all the bytes of `chunks`; removed when the block ends."""
        path, file = self._create()
        try:
            with file:
                await self._fill(file, chunks)
                yield path
        finally:
            path.unlink(missing_ok=True)

    async def purge(self, *, dry_run: bool = False) -> Purged:
        """Removes files that no running call uses."""
        return await asyncio.to_thread(self._purge, dry_run)

    def _create(self) -> tuple[Path, BinaryIO]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            path = self._folder / f"{uuid4().hex}{_SUFFIX}"
            file = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
            # A purge may remove the file before it is locked: then try another.
            if _lock(file.fileno()) and os.fstat(file.fileno()).st_nlink:
                return path, file
            file.close()

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

    def _purge(self, dry_run: bool) -> Purged:
        files = size = 0
        for path in self._folder.glob(f"*{_SUFFIX}"):
            try:
                with path.open("rb") as file:
                    if not _lock(file.fileno()):
                        continue
                    files += 1
                    size += os.fstat(file.fileno()).st_size
                    if not dry_run:
                        path.unlink()
            except FileNotFoundError:  # its call has ended
                continue
        return Purged(files, size)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
