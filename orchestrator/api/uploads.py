"""Uploads: spooled to disk as they arrive, never whole in memory."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeVar

from mesh.errors import InvalidRequestError, LimitExceededError, TimedOutError, UnusableMediaError
from mesh.flow import MinimumFlow, at_least
from mesh.reasons import Reason
from ytcaption.v1 import job_pb2

FrameT = TypeVar("FrameT")

MAX_NAME = 200
MIN_BYTES = 4 * 1024
"""Fewer in the time that is allowed count as no progress."""
LIVE_MIN_BYTES = 1024
"""The same of a live stream; encoded silence takes more."""


async def in_time(frame: Awaitable[FrameT], seconds: float) -> FrameT:
    """The next frame; raises if it does not arrive in that time."""
    try:
        async with asyncio.timeout(seconds):
            return await frame
    except TimeoutError:
        raise _idle() from None


def steady(
    chunks: AsyncIterator[bytes], seconds: float, min_bytes: int = MIN_BYTES
) -> AsyncIterator[bytes]:
    """The chunks; raises if the caller sends too little for that long. Only waiting counts."""
    return at_least(MinimumFlow(min_bytes, seconds), chunks, _idle)


def _idle() -> TimedOutError:
    return TimedOutError("the caller sent too few bytes in the time allowed", reason=Reason.STALLED)


@asynccontextmanager
async def received(
    chunks: AsyncIterator[bytes], name: str, folder: Path, *, max_bytes: int, announced: int | None
) -> AsyncIterator[tuple[Path, job_pb2.Upload]]:
    """Spools the chunks to a file that exists until the block ends, and describes the upload."""
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
        yield (
            Path(file.name),
            job_pb2.Upload(file_name=_plain(name), size_bytes=size, sha256=digest.hexdigest()),
        )


def _too_large(max_bytes: int) -> LimitExceededError:
    return LimitExceededError(
        f"the file is over the {max_bytes} bytes allowed", reason=Reason.TOO_LARGE
    )


def _plain(name: str) -> str:
    """The last path part of the caller's file name, printable characters only; for display."""
    last = PurePosixPath(PureWindowsPath(name).name).name
    return "".join(character for character in last if character.isprintable())[:MAX_NAME]
