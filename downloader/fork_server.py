"""Starts child processes from a fork server that has yt-dlp loaded, and connects their pipes."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

from downloader.commands import Command, run_child
from mesh.forking import fork, kill, one_way_pipe, reap

READ_AHEAD = 64 * 1024
MAX_LINE = 4 * 1024 * 1024


async def wait_until_warm() -> None:
    """Returns once the fork server has loaded everything and forks without delay."""
    child = await asyncio.to_thread(fork, gc.collect)  # a child that has nothing to do
    await asyncio.to_thread(child.join)
    child.close()


class ChildProcess:
    """The service's ends of a child's pipes: its media bytes and its messages."""

    def __init__(self, media: asyncio.StreamReader, control: asyncio.StreamReader) -> None:
        self.media = media
        self.total: int | None = None
        """Size of the recording, once the child knows it."""
        self._control = control

    async def receive(self) -> dict[str, Any]:
        """The next message that is not about the size; {} once the child has exited."""
        while line := await self._control.readline():
            message: dict[str, Any] = json.loads(line)
            if message["kind"] != "total":
                return message
            self.total = message["bytes"]
        return {}


@asynccontextmanager
async def running_child(command: Command) -> AsyncIterator[ChildProcess]:
    """Runs the command in a child; kills it and all it started when the block ends."""
    media_pipe, control_pipe = one_way_pipe(), one_way_pipe()
    process = fork(run_child, command, pipes=(media_pipe, control_pipe))
    transports: list[asyncio.ReadTransport] = []
    try:
        media = await _reader(media_pipe[0], READ_AHEAD, transports)
        control = await _reader(control_pipe[0], MAX_LINE, transports)
        yield ChildProcess(media, control)
    finally:
        kill(process)
        for transport in transports:
            transport.close()
        await asyncio.shield(asyncio.to_thread(reap, process))


async def _reader(
    pipe: Connection, limit: int, transports: list[asyncio.ReadTransport]
) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=limit)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    transports.append(transport)
    return reader
