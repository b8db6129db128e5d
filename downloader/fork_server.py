"""Children that cost nothing to have: forked from a process that has loaded yt-dlp already."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

from downloader.order import PRELOAD, Order, carry_out, do_nothing
from mesh.forking import fork, kill, one_way_pipe, open_fork_server, reap

READ_AHEAD = 64 * 1024
MAX_LINE = 4 * 1024 * 1024


def open_nursery() -> None:
    """Early: before gRPC has threads and sockets."""
    open_fork_server(PRELOAD)


async def have_one() -> None:
    """Returns once the fork server has loaded everything and children come at once."""
    await asyncio.to_thread(_have_one)


def _have_one() -> None:
    child = fork(do_nothing)
    child.join()
    child.close()


class Child:
    """A download in another process: its media, and what it says about it."""

    def __init__(self, media: asyncio.StreamReader, control: asyncio.StreamReader) -> None:
        self.media = media
        self.total: int | None = None
        """Size of the whole, once the child knows."""
        self._control = control

    async def hear(self) -> dict[str, Any]:
        """The next word that is not about size; {} if the child is gone."""
        while line := await self._control.readline():
            word: dict[str, Any] = json.loads(line)
            if word["kind"] != "total":
                return word
            self.total = word["bytes"]
        return {}


@asynccontextmanager
async def born(order: Order) -> AsyncIterator[Child]:
    """A child that works on the order; it and all it started are dead when the block ends."""
    media_pipe, control_pipe = one_way_pipe(), one_way_pipe()
    process = fork(carry_out, order, pipes=(media_pipe, control_pipe))
    transports: list[asyncio.ReadTransport] = []
    try:
        media = await _reader(media_pipe[0], READ_AHEAD, transports)
        control = await _reader(control_pipe[0], MAX_LINE, transports)
        yield Child(media, control)
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
