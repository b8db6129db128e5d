"""Minimum flow: bytes that come too slowly for too long are an error."""

import asyncio
from collections.abc import AsyncIterator, Callable

from mesh.errors import MeshError


async def at_least(
    size: float, seconds: float, chunks: AsyncIterator[bytes], too_slow: Callable[[], MeshError]
) -> AsyncIterator[bytes]:
    """The same chunks; raises `too_slow` once `size` bytes take more than `seconds` to come.

    Only time spent waiting for them counts, not the time their reader takes.
    """
    clock = asyncio.get_running_loop().time
    missing, left = size, seconds
    while True:
        began = clock()
        try:
            async with asyncio.timeout(left):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise too_slow() from None
        if chunk is None:
            return
        missing, left = missing - len(chunk), left - (clock() - began)
        if missing <= 0:
            missing, left = size, seconds
        yield chunk
