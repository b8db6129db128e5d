"""Uploads: spooled to disk as they arrive, never whole in memory."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath, PureWindowsPath

from mesh.errors import InvalidRequestError, LimitExceededError, UnusableMediaError
from mesh.reasons import Reason

MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Received:
    """A complete upload on disk."""

    path: Path
    size: int
    sha256: str


@asynccontextmanager
async def received(
    chunks: AsyncIterator[bytes], folder: Path, *, max_bytes: int, announced: int | None
) -> AsyncIterator[Received]:
    """Spools the chunks to a file that exists until the block ends."""
    if announced is not None and announced > max_bytes:
        raise _too_large(max_bytes)
    digest, size = sha256(), 0
    with tempfile.NamedTemporaryFile(dir=folder, prefix="upload-") as file:
        async for chunk in chunks:
            size += len(chunk)
            if size > max_bytes:
                raise _too_large(max_bytes)
            digest.update(chunk)
            await asyncio.to_thread(file.write, chunk)
        file.flush()
        if announced is not None and size != announced:
            raise InvalidRequestError(
                f"{announced} bytes were announced, {size} arrived", reason=Reason.SIZE_MISMATCH
            )
        if not size:
            raise UnusableMediaError("the file is empty", reason=Reason.EMPTY_MEDIA)
        yield Received(Path(file.name), size, digest.hexdigest())


def _too_large(max_bytes: int) -> LimitExceededError:
    return LimitExceededError(
        f"the file is over the {max_bytes} bytes allowed", reason=Reason.TOO_LARGE
    )


def plain_name(name: str) -> str:
    """The last path part of the caller's file name, printable characters only; for display."""
    last = PurePosixPath(PureWindowsPath(name).name).name
    return "".join(character for character in last if character.isprintable())[:MAX_NAME]
