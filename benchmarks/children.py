"""Processes that live as long as a block of code."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.processes import stop_process

STOP_SECONDS = 15.0
LINE_BYTES = 64 * 1024**2
"""The longest line a spoken-to child may answer."""


@asynccontextmanager
async def child(
    arguments: Sequence[str], variables: Mapping[str, str], log: Path, *, spoken_to: bool = False
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process until the block ends; what it says goes to the log, or to us if we speak to it."""
    with log.open("ab") as log_file:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE if spoken_to else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if spoken_to else log_file,
            stderr=log_file,
            env={**os.environ, **variables},
            limit=LINE_BYTES,
        )
    try:
        yield process
    finally:
        await stop_process(process, STOP_SECONDS)


def last_words(log: Path) -> str:
    """The end of what a child said."""
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]
