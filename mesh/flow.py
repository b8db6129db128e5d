"""Minimum flow: bytes that come too slowly are an error. Only time spent waiting counts."""

import asyncio
from collections.abc import AsyncIterator, Callable

from mesh.errors import MeshError


class MinimumFlow:
    """Requires a number of bytes in every period of waiting; the period restarts with them."""

    def __init__(self, size: float, seconds: float) -> None:
        self._size = self._missing = size
        self._seconds = self.left = seconds
        """Seconds of waiting until the flow is too low."""

    def note(self, received: int, waited: float) -> None:
        """Counts bytes and how long they were waited for."""
        self._missing -= received
        self.left -= waited
        if self._missing <= 0:
            self._missing, self.left = self._size, self._seconds


async def at_least(
    flow: MinimumFlow, chunks: AsyncIterator[bytes], too_slow: Callable[[], MeshError]
) -> AsyncIterator[bytes]:
    """The same chunks; raises `too_slow` once they come slower than the flow allows."""
    clock = asyncio.get_running_loop().time
    while True:
        began = clock()
        try:
            async with asyncio.timeout(flow.left):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise too_slow() from None
        if chunk is None:
            return
        flow.note(len(chunk), clock() - began)
        yield chunk
