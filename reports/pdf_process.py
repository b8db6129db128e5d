"""Has a PDF made by a process of its own: its seconds and its memory are nobody else's."""

import asyncio
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

from reports.model import Collection, Member, Text

CHUNK = 64 * 1024
COMPLAINT = 4096
"""Of what a failed press said, at most this many of the last bytes are told."""


class PressError(Exception):
    """The PDF could not be made."""


async def pressed(
    collection: Collection, members: AsyncIterator[tuple[Member, Text]]
) -> AsyncGenerator[bytes, None]:
    """The file in pieces. Texts are read one at a time; whoever stops listening stops the press."""
    process = await asyncio.create_subprocess_exec(
        # -P: a folder named like us where we were started is not us.
        *(sys.executable, "-P", "-m", "reports"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    assert process.stdout  # noqa: S101 - they are pipes
    assert process.stderr  # noqa: S101
    complaint = asyncio.create_task(process.stderr.read())
    try:
        await _tell(process, collection, members)
        while piece := await process.stdout.read(CHUNK):
            yield piece
        if await process.wait():
            said = (await complaint)[-COMPLAINT:].decode(errors="replace")
            raise PressError(f"the PDF could not be made: {said.strip()}")
    finally:
        complaint.cancel()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _tell(
    process: Process, collection: Collection, members: AsyncIterator[tuple[Member, Text]]
) -> None:
    assert process.stdin  # noqa: S101 - it is a pipe
    # A press that died says why itself.
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(pickle.dumps(collection))
        async for said in members:
            process.stdin.write(pickle.dumps(said))
            await process.stdin.drain()
        process.stdin.write(pickle.dumps(None))
        await process.stdin.drain()
        process.stdin.close()
