"""The least that sending to many can cost here: a bare grpc.aio server, in a process of its own.

It knows no job and no store: each of its streams gets the time, every so often. How late that
arrives is this machine's own limit for watchers.
"""

import asyncio
import gc
import sys
from time import time

import grpc

METHOD = "/bare.Clock/Tick"
SIZE = 250
"""Bytes of a message; a settled segment has about as many."""


class Clock(grpc.GenericRpcHandler):
    """Tells all streams the time, a number of times; begins when enough are there."""

    def __init__(self, streams: int, ticks: int, every: float) -> None:
        self._streams = streams
        self._ticks = ticks
        self._every = every
        self._open = 0
        self._told: list[bytes] = []
        self._news = asyncio.Event()
        self.all_here = asyncio.Event()

    def service(  # noqa: D102
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return grpc.unary_stream_rpc_method_handler(self._tell)

    async def _tell(self, request: bytes, context: object) -> "asyncio.AsyncIterator[bytes]":  # type: ignore[name-defined]
        self._open += 1
        if self._open == self._streams:
            self.all_here.set()
        yield b""
        for tick in range(self._ticks):
            while len(self._told) <= tick:
                await self._news.wait()
            yield self._told[tick]

    async def run(self) -> None:
        """Ticks to the end."""
        await self.all_here.wait()
        for _ in range(self._ticks):
            await asyncio.sleep(self._every)
            self._told.append(f"{time():.6f}".ljust(SIZE).encode())
            self._news.set()
            self._news = asyncio.Event()


async def serve(address: str, streams: int, ticks: int, every: float) -> None:
    """Serves until every message was sent and read, or killed."""
    clock = Clock(streams, ticks, every)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((clock,))
    server.add_insecure_port(address)
    await server.start()
    await clock.run()
    await server.wait_for_termination()


if __name__ == "__main__":
    gc.disable()
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
